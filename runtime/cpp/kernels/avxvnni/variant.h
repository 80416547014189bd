#pragma once

#include "kernels/avxvnni/dot_bytes.h"
#include "kernels/avxvnni/dot_codes.h"
#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
#include "kernels/shared/vectors_avxvnni.h"

namespace thimble::kernels::avxvnni {

constexpr uint32_t kRequired = kAvx2 | kAvxVnni;
/// 6 times 16 weight rows are twelve sums: more than an instruction's latency times its ports.
constexpr Tile kTile = {6, 4};
constexpr size_t kFewRows = 16;
/// Query rows, and vectors of 16 positions, that fit the registers in attention.
constexpr size_t kAttentionRows = 6, kAttentionVectors = 1;
/// Query rows whose integer sums do.
constexpr size_t kByteRows = 6;
/// Rows of an adapter's product, four accumulators each, that fit the registers.
constexpr size_t kFloatRows = 1;
/// Rows and blocks of a float32 product, and chains of each at a time, that do.
constexpr size_t kTileRows = 3, kTileBlocks = 1, kTileChains = 2;

}  // namespace thimble::kernels::avxvnni
