#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"

namespace thimble::cpu {

/// Rows from which on those of a float product go through all blocks of its weight a tile at a
/// time.
constexpr size_t kFewFloatRows = 64;

/// How many rows of a tile, whole blocks: what they read and write stays in the second-level cache.
/// \param columns of both.
inline size_t float_tile_rows(size_t columns, size_t rows, size_t threads) {
  constexpr size_t kTileFloats = size_t{128} << 10;
  const size_t parts = threads == 1 ? 1 : 2 * threads;
  const size_t most = std::min(kTileFloats / columns, kernels::divide_up(rows, parts));
  return kernels::round_up(std::max<size_t>(most, 1), kernels::kBlockRows);
}

}  // namespace thimble::cpu
