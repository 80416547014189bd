#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
// clang-format off: vectors_wasm.h uses fused.h.
#include "kernels/wasm_relaxed/fused.h"
#include "kernels/shared/vectors_wasm.h"
#include "kernels/wasm_pairs/dot_codes.h"
// clang-format on

namespace thimble::kernels::wasm_pairs {

constexpr uint32_t kRequired = kWasmSimd | kWasmRelaxed | kWasmPairs;
constexpr Tile kTile = {4, 4};
constexpr size_t kFewRows = kMatvecRows;

}  // namespace thimble::kernels::wasm_pairs
