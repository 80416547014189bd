#pragma once

#include "kernels/cpu_features.h"
#include "kernels/layout.h"
#include "kernels/vectors_neon.h"

namespace thimble::kernels::neon_dotprod {

constexpr uint32_t kRequired = kNeonDotprod;
constexpr Tile kTile = {4, 4};

}  // namespace thimble::kernels::neon_dotprod
