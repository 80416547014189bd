#pragma once

/// \file
/// Dot products of int8 weights, four in an instruction, as value + 128.

#include "kernels/avx2/codes.h"
#include "kernels/avx2/rows.h"
#include "kernels/shared/vectors_avxvnni.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// How many rows of a tile share a pass over a block, and how many passes there are.
template <size_t kMr>
constexpr size_t kAtOnce = Rows<kMr>::kCount;
template <size_t kMr>
constexpr size_t kBytePasses = kMr / kAtOnce<kMr>;

/// A block's columns from `first` to before `last`, multiples of kColumnStep, times kCount rows of
/// a tile from its row kFirst on. Moves `lines` and `ahead` on.
template <size_t kMr, size_t kFirst, size_t kCount>
[[gnu::always_inline]] inline void dot(const uint8_t*& lines, const uint8_t*& ahead,
                                       const Rows<kMr>& rows, size_t first, size_t last,
                                       I32x16 (&sums)[kCount]) {
  const __m256i flip = _mm256_set1_epi8(-128);
  __m256i acc[kHalves][kCount];
  unrolled<kHalves>(
      [&](auto h) { unrolled<kCount>([&](auto r) { acc[h][r] = _mm256_setzero_si256(); }); });
  for (size_t k = first; k < last; k += kColumnStep) {
    unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
      const int32_t bias = offset_bias<128>(rows.bias[k / kColumnStep * kMr + kFirst + r]);
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        acc[h][r] = _mm256_add_epi32(acc[h][r], _mm256_set1_epi32(bias));
      });
    });
    unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
      prefetch<kBytePasses<kMr>>(lines, ahead, 0);
      ahead += kLineBytes / kBytePasses<kMr>;
      __m256i weights[kHalves];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        weights[h] = _mm256_xor_si256(_mm256_load_si256(as_vector(lines + h * kHalfLine)), flip);
      });
      lines += kLineBytes;
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        const __m256i four = _mm256_set1_epi32(rows.four(kFirst + r, k + quad * 4));
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          acc[h][r] = dpbusd(acc[h][r], weights[h], four);
        });
      });
    });
  }
  unrolled<kCount>([&](auto r) { sums[r] = {acc[0][r], acc[1][r]}; });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
