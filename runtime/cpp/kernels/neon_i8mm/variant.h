#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
#include "kernels/shared/vectors_neon.h"

namespace thimble::kernels::neon_i8mm {

constexpr uint32_t kRequired = kNeonDotprod | kNeonI8mm;
constexpr Tile kTile = {8, 8};
constexpr size_t kFewRows = kMatvecRows;
/// Query rows, and vectors of 16 positions, that fit the registers in attention.
constexpr size_t kAttentionRows = 6, kAttentionVectors = 1;
/// Query rows whose integer sums do.
constexpr size_t kByteRows = 6;
/// Rows of an adapter's product, four accumulators each, that fit the registers.
constexpr size_t kFloatRows = 1;
/// Rows and blocks of a float32 product, and chains of each at a time, that do.
constexpr size_t kTileRows = 6, kTileBlocks = 1, kTileChains = 1;

}  // namespace thimble::kernels::neon_i8mm
