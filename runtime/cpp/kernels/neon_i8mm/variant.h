#pragma once

#include "kernels/cpu_features.h"
#include "kernels/layout.h"
#include "kernels/vectors_neon.h"

namespace thimble::kernels::neon_i8mm {

constexpr uint32_t kRequired = kNeonDotprod | kNeonI8mm;
constexpr Tile kTile = {8, 8};

}  // namespace thimble::kernels::neon_i8mm
