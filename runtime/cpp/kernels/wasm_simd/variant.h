#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
// clang-format off: vectors_wasm.h uses fused.h.
#include "kernels/wasm_simd/fused.h"
#include "kernels/shared/vectors_wasm.h"
#include "kernels/wasm_simd/dot_codes.h"
// clang-format on

namespace thimble::kernels::wasm_simd {

constexpr uint32_t kRequired = kWasmSimd;
constexpr Tile kTile = {4, 4};
constexpr size_t kFewRows = kMatvecRows;
/// Query rows, and vectors of 16 positions, that fit the registers in attention.
constexpr size_t kAttentionRows = 1, kAttentionVectors = 1;
/// Query rows whose integer sums do.
constexpr size_t kByteRows = 1;
/// Rows of an adapter's product, four accumulators each, that fit the registers.
constexpr size_t kFloatRows = 1;
/// Rows and blocks of a float32 product, and chains of each at a time, that do.
constexpr size_t kTileRows = 2, kTileBlocks = 1, kTileChains = 1;

}  // namespace thimble::kernels::wasm_simd
