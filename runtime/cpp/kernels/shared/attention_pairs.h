#pragma once

/// \file
/// Integer products of attention where instructions multiply two words of 16 bits at a time: of
/// four bytes the first and the third, then the second and the fourth.

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
  static constexpr size_t kQueryBytes = 2 * kColumns;
  static void put_query(const int8_t* columns, int8_t* to) {
    if constexpr (kHalves && kMultipliesHalves) {
      std::memcpy(to, columns, kColumns);
      return;
    }
    for (size_t i = 0; i < kColumns; i += kCacheFour, to += 2 * kCacheFour) {
      const int8_t* four = columns + i;
      const int16_t words[] = {four[0], four[2], four[1], four[3]};
      std::memcpy(to, words, sizeof words);
    }
  }
  /// Writes those of 16 queries, one behind the other.
  static void put_queries(I32x16 fours, int8_t* to) {
    int32_t lanes[kLanes];
    store(lanes, fours);
    const auto* bytes = reinterpret_cast<const int8_t*>(lanes);
    for (size_t i = 0; i < kLanes; ++i) put_query(bytes + i * kCacheFour, to + i * kQueryBytes);
  }
  /// What the sum of a query's products begins with, of its own sum.
  static I32x16 begin_score(int32_t sum) { return broadcast(kHalves ? 0 : -kCacheBias * sum); }
  /// The same where a key's bytes stand for themselves, not for what is 128 less.
  static I32x16 begin_plain(int32_t /*sum*/) { return broadcast(int32_t{0}); }

  /// Adds the products of kColumns columns: keys of kCount blocks, `stride` apart, and rows'
  /// queries.
  template <size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_keys(const uint8_t* keys, size_t stride,
                                              const int8_t* query, I32x16 (&acc)[kRows][kCount]) {
    if constexpr (kHalves && kMultipliesHalves) return add_halves_of_keys(keys, stride, query, acc);
    unrolled<kColumns / kCacheFour>([&](auto part) [[gnu::always_inline]] {
      const auto pair_of = [&](size_t r, size_t half) [[gnu::always_inline]] {
        int32_t pair;
        std::memcpy(&pair, query + r * kQueryBytes + (2 * part + half) * sizeof pair, sizeof pair);
        return pair;
      };
      const auto words = [&](auto half, auto b) [[gnu::always_inline]] {
        return words_at<part, half>(keys + b * stride);
      };
      add_words(words, pair_of, acc);
    });
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
  template <size_t kFirstHalf, bool kFromMemory, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_values(const Blocks<Byte, kFromMemory>& values,
                                                size_t blocks, size_t d, size_t columns,
                                                const Weights* weights,
                                                I32x16 (&acc)[kRows][kCount]) {
    const auto add = [&](const Byte* line, size_t position) [[gnu::always_inline]] {
      const auto pair_of = [&](size_t r, size_t half)
                               [[gnu::always_inline]] { return weights[r].pairs[position + half]; };
      const auto words = [&](auto half, auto v) [[gnu::always_inline]] {
        constexpr size_t kAt = kFirstHalf + v, kLine = kHalves ? kAt / 2 : v;
        return words_at<kAt % 2, half>(line + kLine * kLineBytes);
      };
      add_words(words, pair_of, acc);
    };
    each_four<kCount>(values, blocks, d, columns, add);
  }

 private:
#if defined(__AVX2__)
  static constexpr bool kMultipliesHalves = true;  // by bytes; sums of two products fit 16 bits
  template <size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_halves_of_keys(const uint8_t* keys, size_t stride,
                                                        const int8_t* query,
                                                        I32x16 (&acc)[kRows][kCount]) {
    unrolled<kCount>([&](auto b) [[gnu::always_inline]] {
      const Halves halves = load_halves_of(keys + b * stride);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        int32_t fours[2];
        std::memcpy(fours, query + r * kQueryBytes, sizeof fours);
        acc[r][b] = add_halves(acc[r][b], halves, fours[0], fours[1]);
      });
    });
  }
#else
  static constexpr bool kMultipliesHalves = false;
  template <typename... Arguments>
  static void add_halves_of_keys(const Arguments&...) {}
#endif

  /// Of 64 bytes, or of their halves kPart, every second.
  template <size_t kPart, size_t kOdd, typename Byte>
  [[gnu::always_inline]] static Words words_at(const Byte* line) {
    if constexpr (kHalves) {
      return kOdd == 0 ? even_halves<kPart>(line) : odd_halves<kPart>(line);
    } else {
      return kOdd == 0 ? even_words(line) : odd_words(line);
    }
  }

  /// Adds the products of kCount lines of bytes and each row's two pairs.
  template <typename WordsOf, typename PairOf, size_t kRows, size_t kCount>
  [[gnu::always_inline]] static void add_words(WordsOf words_of, PairOf pair_of,
                                               I32x16 (&acc)[kRows][kCount]) {
    unrolled<2>([&](auto half) [[gnu::always_inline]] {
      Words words[kCount];
      unrolled<kCount>([&](auto v) [[gnu::always_inline]] { words[v] = words_of(half, v); });
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
