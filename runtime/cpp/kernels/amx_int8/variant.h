#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
#include "kernels/shared/vectors_avx512.h"

namespace thimble::kernels::amx_int8 {

constexpr uint32_t kRequired = kAvx2 | kAvx512 | kAvx512Vnni | kAmxInt8;
/// A tile register: 16 rows of 64 bytes.
constexpr Tile kTile = {16, 64};
constexpr size_t kFewRows = kMatvecRows;

}  // namespace thimble::kernels::amx_int8
