#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/kernels.h"

namespace thimble::cpu {

/// Rows from which on those of a float product go through all blocks of its weight a tile at a
/// time.
constexpr size_t kFewFloatRows = 64;

/// How many rows of a tile, whole blocks: what they read and write stays in the second-level cache,
/// unless these were too few to be worth reading the weight once more.
/// \param columns of both.
inline size_t float_tile_rows(size_t columns, size_t rows, size_t threads) {
  constexpr size_t kTileFloats = size_t{128} << 10, kLeastRows = 192;
  const size_t parts = threads == 1 ? 1 : 2 * threads;
  const size_t wanted = std::max(kTileFloats / columns, kLeastRows);
  return kernels::round_up(std::min(wanted, kernels::divide_up(rows, parts)), kernels::kBlockRows);
}

}  // namespace thimble::cpu
