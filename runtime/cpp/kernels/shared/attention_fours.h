#pragma once

/// \file
/// Integer products of attention where instructions multiply four bytes at a time.

#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Of bytes, or of halves of bytes.
template <bool kHalves>
struct IntegerProducts {
  using Byte = std::conditional_t<kHalves, uint8_t, int8_t>;
  /// Columns of keys that lie together, and bytes of so many of a query.
  static constexpr size_t kColumns = kHalves ? 2 * kCacheFour : kCacheFour;
  static constexpr size_t kQueryBytes = kColumns;
  static void put_query(const int8_t* columns, int8_t* to) {
    std::memcpy(to, columns, kQueryBytes);
  }
  /// Writes those of 16 queries, one behind the other.
  static void put_queries(I32x16 fours, int8_t* to) {
    store(reinterpret_cast<int32_t*>(to), fours);
  }
  /// What the sum of a query's products begins with, of its own sum.
  static I32x16 begin_score(int32_t sum) {
    return kHalves ? broadcast(int32_t{0}) : begin_biased(sum);
  }
  /// The same where a key's bytes stand for themselves, not for what is 128 less.
  static I32x16 begin_plain(int32_t sum) { return begin_unsigned(sum); }

  /// Adds the products of kColumns columns: keys of kCount blocks, `stride` apart, and rows'
  /// queries.
  template <size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_keys(const uint8_t* keys, size_t stride,
                                              const int8_t* query, I32x16 (&acc)[kRows][kCount]) {
    unrolled<kColumns / kCacheFour>([&](auto half) [[gnu::always_inline]] {
      Bytes key[kCount];
      unrolled<kCount>([&](auto b) [[gnu::always_inline]] {
        if constexpr (kHalves) {
          key[b] = load_halves<half>(keys + b * stride);
        } else {
          key[b] = load_biased(keys + b * stride);
        }
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const int32_t four = four_at(query + r * kQueryBytes + half * kCacheFour);
        unrolled<kCount>([&](auto b) [[gnu::always_inline]] {
          acc[r][b] = add_biased(acc[r][b], key[b], four);
        });
      });
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
  template <size_t kFirstHalf, bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_values(const Blocks<Byte, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const Weights* weights,
                                                I32x16 (&acc)[kRows][kCount]) {
    add_digits<kFirstHalf>(values, blocks, d, columns, weights->high, acc);
    unrolled<kRows>([&](auto r) {
      unrolled<kCount>([&](auto v) { acc[r][v] = mul(acc[r][v], broadcast(kBase)); });
    });
    add_digits<kFirstHalf>(values.again(), blocks, d, columns, weights->low, acc);
  }

 private:
  static constexpr int32_t kBase = 128;

  static int32_t four_at(const int8_t* bytes) {
    int32_t four;
    std::memcpy(&four, bytes, sizeof four);
    return four;
  }

  template <size_t kFirstHalf, bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_digits(const Blocks<Byte, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const int8_t* digits,
                                                I32x16 (&acc)[kRows][kCount]) {
    const auto add = [&](const Byte* line, size_t position) [[gnu::always_inline]] {
      Bytes value[kCount];
      unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
        if constexpr (kHalves) {
          constexpr size_t kAt = kFirstHalf + v;
          value[v] = load_halves<kAt % 2>(line + kAt / 2 * kLineBytes);
        } else {
          value[v] = load_bytes(line + v * kLineBytes);
        }
      });
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
