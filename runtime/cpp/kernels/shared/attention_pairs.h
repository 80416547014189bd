#pragma once

/// \file
/// Integer products of attention where instructions multiply two words of 16 bits at a time: of
/// four bytes the first and the third, then the second and the fourth.

#include <cstring>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/attention_blocks.h"

namespace thimble::kernels::THIMBLE_VARIANT {

struct IntegerProducts {
  /// Bytes of four columns of a query.
  static constexpr size_t kQueryBytes = 2 * kCacheFour;
  static void put_query(const int8_t* four, int8_t* to) {
    const int16_t words[] = {four[0], four[2], four[1], four[3]};
    std::memcpy(to, words, sizeof words);
  }
  /// What the sum of a query's products begins with, of its own sum.
  static I32x16 begin_score(int32_t sum) { return broadcast(-kCacheBias * sum); }

  /// Adds the products of four columns: keys of kCount blocks, `stride` apart, and rows' queries.
  template <size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_keys(const uint8_t* keys, size_t stride,
                                              const int8_t* query, I32x16 (&acc)[kRows][kCount]) {
    const auto pair_of = [&](size_t r, size_t half) [[gnu::always_inline]] {
      int32_t pair;
      std::memcpy(&pair, query + r * kQueryBytes + half * sizeof pair, sizeof pair);
      return pair;
    };
    add_lines(keys, stride, pair_of, acc);
  }

  /// A row's weights in a tile: of every four, two pairs.
  struct Weights {
    alignas(kLineBytes) int32_t pairs[kAttentionTile];  ///< of every four, two are used
  };
  /// Writes 16 weights, 0 to 16383.
  static void put_weights(I32x16 weights, size_t at, Weights& to) {
    store(to.pairs + at, paired(weights));
  }

  /// Adds the values of kCount vectors of columns from d on, times each row's weights.
  template <bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_values(const Blocks<int8_t, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const Weights* weights,
                                                I32x16 (&acc)[kRows][kCount]) {
    const auto add = [&](const int8_t* line, size_t position) [[gnu::always_inline]] {
      const auto pair_of = [&](size_t r, size_t half)
                               [[gnu::always_inline]] { return weights[r].pairs[position + half]; };
      add_lines(line, kLineBytes, pair_of, acc);
    };
    each_four<kCount>(values, blocks, d, columns, add);
  }

 private:
  /// Adds the products of kCount lines of bytes, `stride` apart, and each row's two pairs.
  template <typename Byte, typename PairOf, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_lines(const Byte* lines, size_t stride, PairOf pair_of,
                                               I32x16 (&acc)[kRows][kCount]) {
    unrolled<2>([&](auto half) [[gnu::always_inline]] {
      Words words[kCount];
      unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
        const Byte* line = lines + v * stride;
        words[v] = half == 0 ? even_words(line) : odd_words(line);
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const int32_t pair = pair_of(r, half);
        unrolled<kCount>([&](auto v) [[gnu::always_inline]] {
          acc[r][v] = add_pairs(acc[r][v], words[v], pair);
        });
      });
    });
  }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
