#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/layout.h"
#include "kernels/unrolled.h"

namespace thimble::kernels::avx2 {

/// kRows rows of activations, of a tile: 4 columns from k on at x[r] + k * mr.
template <size_t kRows>
struct Rows {
  const int8_t* x[kRows];
  const int32_t* bias[kRows];
  size_t mr;

  /// `count` rows from `first` on, all of one tile; those of the last again up to kRows.
  Rows(const QuantizedRows& rows, size_t first, size_t count) : mr(rows.tile.mr) {
    unrolled<kRows>([&](auto r) {
      const size_t row = first + (r < count ? r : count - 1);
      x[r] = rows.values + row / mr * mr * rows.columns + row % mr * 4;
      bias[r] = rows.group_bias + row / mr * mr * (rows.columns / kColumnStep) + row % mr;
    });
  }

  [[gnu::always_inline]] int32_t four(size_t r, size_t k) const {
    int32_t bytes;
    std::memcpy(&bytes, x[r] + k * mr, sizeof bytes);
    return bytes;
  }
};

/// Calls `run(kRows, first, count)` for a few rows at a time, kRows an integral constant 1, 2 or 4.
template <typename Run>
inline void for_some_rows(size_t rows, Run run) {
  for (size_t first = 0; first < rows; first += 4) {
    const size_t count = rows - first < 4 ? rows - first : 4;
    if (count == 1) {
      run(std::integral_constant<size_t, 1>{}, first, count);
    } else if (count == 2) {
      run(std::integral_constant<size_t, 2>{}, first, count);
    } else {
      run(std::integral_constant<size_t, 4>{}, first, count);
    }
  }
}

}  // namespace thimble::kernels::avx2
