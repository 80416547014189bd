#pragma once

/// \file
/// Dot products of codes, four bytes in an instruction.

#include "kernels/avx2/codes.h"
#include "kernels/avx2/rows.h"
#include "kernels/shared/vectors_avxvnni.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Dot products, negative, of a block's weight rows with a tile's over kColumnStep columns.
template <typename Codes, size_t kMr>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const uint8_t* ahead,
                                            const Rows<kMr>& rows, size_t k,
                                            __m256i (&acc)[kHalves][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    const int32_t bias =
        offset_bias<largest_value(Codes::kBits)>(rows.bias[k / kColumnStep * kMr + r]);
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] { acc[h][r] = _mm256_set1_epi32(bias); });
  });
  unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
    __m256i codes[kHalves];
    load_codes<Codes, quad, kMr>(lines, ahead, codes);
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const __m256i four = _mm256_set1_epi32(rows.four(r, k + quad * 4));
      unrolled<kHalves>(
          [&](auto h) [[gnu::always_inline]] { acc[h][r] = dpbusd(acc[h][r], codes[h], four); });
    });
  });
}

/// totals + sums of dot_step times multiples. Sums that fit are the low 16 bits; the high 16 are
/// multiplied by 0.
template <size_t kBits>
[[gnu::always_inline]] inline __m256i add_times(__m256i totals, __m256i sums, __m256i multiples) {
  if constexpr (sums_fit_words(kBits)) return _mm256_dpwssd_avx_epi32(totals, sums, multiples);
  return _mm256_add_epi32(totals, _mm256_mullo_epi32(sums, multiples));
}

/// totals + sums of dot_step.
[[gnu::always_inline]] inline __m256i add_sums(__m256i totals, __m256i sums) {
  return _mm256_add_epi32(totals, sums);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
