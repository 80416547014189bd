#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
#include "kernels/shared/vectors_avx512.h"

namespace thimble::kernels::avx512vnni {

constexpr uint32_t kRequired = kAvx2 | kAvx512 | kAvx512Vnni;
constexpr Tile kTile = {12, 4};
constexpr size_t kFewRows = 32;
/// Query rows, and vectors of 16 positions, that fit the registers in attention.
constexpr size_t kAttentionRows = 12, kAttentionVectors = 2;
/// Query rows whose integer sums do.
constexpr size_t kByteRows = 12;
/// Rows of an adapter's product, four accumulators each, that fit the registers.
constexpr size_t kFloatRows = 4;
/// Rows and blocks of a float32 product, and chains of each at a time, that do.
constexpr size_t kTileRows = 3, kTileBlocks = 2, kTileChains = 4;

}  // namespace thimble::kernels::avx512vnni
