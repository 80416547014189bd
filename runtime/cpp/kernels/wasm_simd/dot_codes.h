#pragma once

#include "kernels/wasm_simd/dot_bytes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Codes are bytes like others.
using CodeInput = ByteInput;
using CodeSums = ByteSums;

}  // namespace thimble::kernels::THIMBLE_VARIANT
