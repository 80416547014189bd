#pragma once

/// \file
/// Integer products of attention where instructions multiply four bytes at a time.

#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"

namespace thimble::kernels::THIMBLE_VARIANT {

struct IntegerProducts {
  /// Bytes of four columns of a query.
  static constexpr size_t kQueryBytes = kCacheFour;
  static void put_query(const int8_t* four, int8_t* to) { std::memcpy(to, four, kQueryBytes); }
  /// What the sum of a query's products begins with, of its own sum.
  static I32x16 begin_score(int32_t sum) { return begin_biased(sum); }

  /// Adds the products of four columns: keys of kCount blocks, `stride` apart, and rows' queries.
  template <size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_keys(const uint8_t* keys, size_t stride,
                                              const int8_t* query, I32x16 (&acc)[kRows][kCount]) {
    Bytes key[kCount];
    unrolled<kCount>([&](auto b)
                         [[gnu::always_inline]] { key[b] = load_biased(keys + b * stride); });
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const int32_t four = four_at(query + r * kQueryBytes);
      unrolled<kCount>(
          [&](auto b) [[gnu::always_inline]] { acc[r][b] = add_biased(acc[r][b], key[b], four); });
    });
  }

  /// A row's weights in a tile, of two digits, 0 to 127: such instructions' factors may have to
  /// differ in their signs.
  struct Weights {
    int8_t high[kAttentionTile], low[kAttentionTile];
  };
  /// Writes 16 weights, 0 to 16383.
  static void put_weights(I32x16 weights, size_t at, Weights& to) {
    const I32x16 high = shift_right<7>(weights);
    store_bytes(to.high + at, high);
    store_bytes(to.low + at, sub(weights, mul(high, broadcast(kBase))));
  }

  /// Adds the values of kCount vectors of columns from d on, times each row's weights.
  template <bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_values(const Blocks<int8_t, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const Weights* weights,
                                                I32x16 (&acc)[kRows][kCount]) {
    add_digits(values, blocks, d, columns, weights->high, acc);
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) { acc[r][v] = mul(acc[r][v], broadcast(kBase)); });
    });
    add_digits(values.again(), blocks, d, columns, weights->low, acc);
  }

 private:
  static constexpr int32_t kBase = 128;

  static int32_t four_at(const int8_t* bytes) {
    int32_t four;
    std::memcpy(&four, bytes, sizeof four);
    return four;
  }

  template <bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_digits(const Blocks<int8_t, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const int8_t* digits,
                                                I32x16 (&acc)[kRows][kCount]) {
    const auto add = [&](const int8_t* line, size_t position) [[gnu::always_inline]] {
      Bytes value[kCount];
      unrolled<kCount>(
          [&](auto v) [[gnu::always_inline]] { value[v] = load_bytes(line + v * kLineBytes); });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const int32_t four = four_at(digits + r * sizeof(Weights) + position);
        unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
          acc[r][v] = add_products(acc[r][v], value[v], four);
        });
      });
    };
    each_four<kCount>(values, blocks, d, columns, add);
  }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
