#pragma once

#include "kernels/layout.h"
#include "kernels/vectors_scalar.h"

namespace thimble::kernels::scalar {

constexpr uint32_t kRequired = 0;
constexpr Tile kTile = {4, 4};

}  // namespace thimble::kernels::scalar
