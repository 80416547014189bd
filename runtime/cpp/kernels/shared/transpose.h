#pragma once

/// \file
/// Rows of numbers to columns of 16, and back.

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

#if defined(__AVX512F__)
/// 16 vectors of 16 numbers, transposed: pairs of lanes 1 apart, then 2, then quarters.
[[gnu::always_inline]] inline void transpose_vectors(F32x16 (&rows)[kLanes]) {
  F32x16 pairs[kLanes], fours[kLanes];
  for (size_t i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
  }
  for (size_t i = 0; i < kLanes; i += 4) {
    for (size_t j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(pairs[i + j]), high = _mm512_castps_pd(pairs[i + j + 2]);
      fours[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      fours[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    const F32x16 a = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0x88);
    const F32x16 b = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0x88);
    const F32x16 c = _mm512_shuffle_f32x4(fours[i], fours[i + 4], 0xDD);
    const F32x16 d = _mm512_shuffle_f32x4(fours[i + 8], fours[i + 12], 0xDD);
    rows[i] = _mm512_shuffle_f32x4(a, b, 0x88);
    rows[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(a, b, 0xDD);
    rows[i + 12] = _mm512_shuffle_f32x4(c, d, 0xDD);
  }
}
#endif

/// to[column][row] = from[row][column] * factor. Lanes from `rows` on are those of the last row.
inline void transpose(const float* from, size_t stride, size_t rows, size_t columns, float factor,
                      float* to, size_t to_stride) {
  for (size_t row = 0; row < to_stride; row += kLanes) {
    const auto at = [&](size_t i) { return from + (row + i < rows ? row + i : rows - 1) * stride; };
    size_t column = 0;
#if defined(__AVX512F__)
    for (; column + kLanes <= columns; column += kLanes) {
      F32x16 lines[kLanes];
      for (size_t i = 0; i < kLanes; ++i) lines[i] = load(at(i) + column);
      transpose_vectors(lines);
      for (size_t i = 0; i < kLanes; ++i)
        store(to + (column + i) * to_stride + row, mul(lines[i], broadcast(factor)));
    }
#endif
    for (; column < columns; ++column)
      for (size_t i = 0; i < kLanes; ++i) to[column * to_stride + row + i] = at(i)[column] * factor;
  }
}

/// to[row][column] = from[column][row].
inline void transpose_back(const float* from, size_t stride, size_t rows, size_t columns, float* to,
                           size_t to_stride) {
  for (size_t row = 0; row < rows; row += kLanes) {
    const size_t count = rows - row < kLanes ? rows - row : kLanes;
    size_t column = 0;
#if defined(__AVX512F__)
    for (; column + kLanes <= columns; column += kLanes) {
      F32x16 lines[kLanes];
      for (size_t i = 0; i < kLanes; ++i) lines[i] = load(from + (column + i) * stride + row);
      transpose_vectors(lines);
      for (size_t i = 0; i < count; ++i) store(to + (row + i) * to_stride + column, lines[i]);
    }
#endif
    for (; column < columns; ++column)
      for (size_t i = 0; i < count; ++i)
        to[(row + i) * to_stride + column] = from[column * stride + row + i];
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
