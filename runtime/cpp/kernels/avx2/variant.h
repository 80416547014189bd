#pragma once

#include "kernels/cpu_features.h"
#include "kernels/layout.h"
#include "kernels/vectors_avx2.h"

namespace thimble::kernels::avx2 {

constexpr uint32_t kRequired = kAvx2;
constexpr Tile kTile = {4, 4};

}  // namespace thimble::kernels::avx2
