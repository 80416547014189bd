#pragma once

/// \file
/// Dot products of int8 weights as numbers of 16 bits.

#include "kernels/avx2/rows.h"
#include "kernels/shared/unrolled.h"
#include "kernels/shared/vectors_avx2.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Four int32 pairs of sums of 4 weight rows each, as 16 sums.
[[gnu::always_inline]] inline I32x16 added_pairs(const __m256i (&pairs)[4]) {
  const __m256i low = _mm256_hadd_epi32(pairs[0], pairs[1]);
  const __m256i high = _mm256_hadd_epi32(pairs[2], pairs[3]);
  return {_mm256_permute4x64_epi64(low, 0xD8), _mm256_permute4x64_epi64(high, 0xD8)};
}

/// How many rows of a tile share a pass over a block, and how many passes there are.
template <size_t kMr>
constexpr size_t kAtOnce = kMr < 2 ? 1 : 2;
template <size_t kMr>
constexpr size_t kBytePasses = kMr / kAtOnce<kMr>;

/// Pairs of sums of a block with kCount rows.
template <size_t kCount>
using Pairs = __m256i[kCount][4];

/// A block's columns from `first` to before `last`, multiples of kColumnStep, times kCount rows of
/// a tile from its row kFirst on, in 16 bits: products of int8 overflow vpmaddubsw. Moves `lines`
/// and `ahead` on.
template <size_t kMr, size_t kFirst, size_t kCount>
[[gnu::always_inline]] inline void dot(const uint8_t*& lines, const uint8_t*& ahead,
                                       const Rows<kMr>& rows, size_t first, size_t last,
                                       I32x16 (&sums)[kCount]) {
  Pairs<kCount> acc;
  unrolled<kCount>(
      [&](auto r) { unrolled<4>([&](auto i) { acc[r][i] = _mm256_setzero_si256(); }); });
  for (size_t k = first; k < last; k += 4, lines += kLineBytes) {
    prefetch<kBytePasses<kMr>>(lines, ahead, 0);
    ahead += kLineBytes / kBytePasses<kMr>;
    __m256i x[kCount];
    unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
      const __m128i four = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(rows.four(kFirst + r, k)));
      x[r] = _mm256_broadcastq_epi64(four);
    });
    unrolled<4>([&](auto i) [[gnu::always_inline]] {
      const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(lines) + i);
      const __m256i weights = _mm256_cvtepi8_epi16(bytes);
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        acc[r][i] = _mm256_add_epi32(acc[r][i], _mm256_madd_epi16(weights, x[r]));
      });
    });
  }
  unrolled<kCount>([&](auto r) { sums[r] = added_pairs(acc[r]); });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
