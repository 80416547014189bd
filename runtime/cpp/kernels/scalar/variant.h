#pragma once

#include "kernels/layout/layout.h"
#include "kernels/shared/vectors_scalar.h"

namespace thimble::kernels::scalar {

constexpr uint32_t kRequired = 0;
constexpr Tile kTile = {4, 4};
constexpr size_t kFewRows = kMatvecRows;
/// Query rows, and vectors of 16 positions, that fit the registers in attention.
constexpr size_t kAttentionRows = 2, kAttentionVectors = 1;
/// Query rows whose integer sums do.
constexpr size_t kByteRows = 2;
/// Rows of an adapter's product, four accumulators each, that fit the registers.
constexpr size_t kFloatRows = 1;
/// Rows and blocks of a float32 product, and chains of each at a time, that do.
constexpr size_t kTileRows = 2, kTileBlocks = 1, kTileChains = 1;

}  // namespace thimble::kernels::scalar
