#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"

namespace thimble::cpu {

/// Rows from which on those of a float product go through all blocks of its weight a tile at a
/// time.
constexpr size_t kFewFloatRows = 64;

/// The most rows of a tile.
/// \param columns that are read and written.
inline size_t most_float_tile_rows(size_t columns) {
  constexpr size_t kTileFloats = size_t{128} << 10, kLeastRows = 192;
  return kernels::round_up(std::max(kTileFloats / columns, kLeastRows), kernels::kBlockRows);
}

/// How many rows of a tile, whole blocks: what they read and write stays in the second-level cache,
/// unless these were too few to be worth reading the weight once more.
/// \param columns of both.
inline size_t float_tile_rows(size_t columns, size_t rows, size_t threads) {
  const size_t parts = threads == 1 ? 1 : 2 * threads;
  return std::min(most_float_tile_rows(columns),
                  kernels::round_up(kernels::divide_up(rows, parts), kernels::kBlockRows));
}

}  // namespace thimble::cpu
