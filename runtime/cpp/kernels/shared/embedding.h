#pragma once

#include "kernels/layout/layout.h"

namespace thimble::kernels {

/// Writes the first `columns` values of a row of a packed weight as floats, so that an embedding
/// that is also the output matrix needs no second copy. Each is value * (the exact product of its
/// scales), as in eager code.
void unpack_row(const PackedWeight& weight, size_t row, size_t columns, float* out);

}  // namespace thimble::kernels
