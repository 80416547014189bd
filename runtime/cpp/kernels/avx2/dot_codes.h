#pragma once

/// \file
/// Dot products of codes without an instruction for four bytes: in pairs, as numbers of 16 bits.

#include "kernels/avx2/codes.h"
#include "kernels/avx2/rows.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// The sum of 16-bit numbers, computed immediately: the compiler would first collect all products
/// of a group on the stack.
[[gnu::always_inline]] inline __m256i add_words(__m256i acc, __m256i x) {
  asm("vpaddw %1, %0, %0" : "+x"(acc) : "x"(x));
  return acc;
}

/// Adds the products of kQuads times four columns, from the kFirst-th four of a step on, of a
/// block's weight rows with a tile's to 16-bit sums: two a weight row, one over the first two of
/// each four columns, one over the others.
template <typename Codes, size_t kFirst, size_t kQuads, size_t kMr>
[[gnu::always_inline]] inline void add_products(const uint8_t* lines, const uint8_t* ahead,
                                                const Rows<kMr>& rows, size_t k,
                                                __m256i (&words)[kHalves][Rows<kMr>::kCount]) {
  unrolled<kQuads>([&](auto i) [[gnu::always_inline]] {
    constexpr size_t kQuad = kFirst + i;
    __m256i codes[kHalves];
    load_codes<Codes, kQuad, kMr>(lines, ahead, codes);
    unrolled<Rows<kMr>::kCount>([&](auto r) [[gnu::always_inline]] {
      const __m256i four = _mm256_set1_epi32(rows.four(r, k + kQuad * 4));
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        words[h][r] = add_words(words[h][r], _mm256_maddubs_epi16(codes[h], four));
      });
    });
  });
}

/// Dot products, negative, of a block's weight rows with a tile's over kColumnStep columns.
///
/// Of 2 and 4 bits they are two 16-bit sums a weight row. The first starts from the bias, -7 times
/// the q of both. It may wrap in between, but the result fits int16: |sum of value * q| + |7 * sum
/// of the other's q| <= 16384 + 14336. The second is at most 16 * 15 * 128.
///
/// Of 3, 5 and 6 bits they are 32-bit sums of 16-bit sums over 32, 16 or 8 columns, which are from
/// -16 * 16 * 128 to 16 * 16 * 127, or at most 8 * 31 * 128 or 4 * 63 * 128.
template <typename Codes, size_t kMr>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const uint8_t* ahead,
                                            const Rows<kMr>& rows, size_t k,
                                            __m256i (&acc)[kHalves][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount, kBits = Codes::kBits;
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    const int32_t bias = offset_bias<largest_value(kBits)>(rows.bias[k / kColumnStep * kMr + r]);
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
      acc[h][r] = _mm256_set1_epi32(sums_fit_words(kBits) ? static_cast<uint16_t>(bias) : bias);
    });
  });
  if constexpr (sums_fit_words(kBits)) {
    add_products<Codes, 0, 8>(lines, ahead, rows, k, acc);
  } else {
    constexpr size_t kQuads = kBits == 3 ? 8 : kBits == 5 ? 4 : 2;
    unrolled<8 / kQuads>([&](auto part) [[gnu::always_inline]] {
      __m256i words[kHalves][kRows];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r)
                            [[gnu::always_inline]] { words[h][r] = _mm256_setzero_si256(); });
      });
      add_products<Codes, part * kQuads, kQuads>(lines, ahead, rows, k, words);
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const __m256i sum = _mm256_madd_epi16(words[h][r], _mm256_set1_epi16(1));
          acc[h][r] = _mm256_add_epi32(acc[h][r], sum);
        });
      });
    });
  }
}

/// totals + sums of dot_step times multiples, each in 32 bits.
template <size_t kBits>
[[gnu::always_inline]] inline __m256i add_times(__m256i totals, __m256i sums, __m256i multiples) {
  const __m256i products =
      sums_fit_words(kBits)
          ? _mm256_madd_epi16(sums, _mm256_or_si256(multiples, _mm256_slli_epi32(multiples, 16)))
          : _mm256_mullo_epi32(sums, multiples);
  return _mm256_add_epi32(totals, products);
}

/// totals + sums of dot_step of 4 bits.
[[gnu::always_inline]] inline __m256i add_sums(__m256i totals, __m256i sums) {
  return _mm256_add_epi32(totals, _mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
