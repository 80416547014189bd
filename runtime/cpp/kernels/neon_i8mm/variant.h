#pragma once

#include "kernels/layout/layout.h"
#include "kernels/select/cpu_features.h"
#include "kernels/shared/vectors_neon.h"

namespace thimble::kernels::neon_i8mm {

constexpr uint32_t kRequired = kNeonDotprod | kNeonI8mm;
constexpr Tile kTile = {8, 8};
constexpr size_t kFewRows = kMatvecRows;

}  // namespace thimble::kernels::neon_i8mm
