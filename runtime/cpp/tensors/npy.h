#pragma once

#include <string>

#include "core/status.h"
#include "tensors/tensor.h"

namespace thimble {

/// Reads a .npy file (numpy's format, versions 1 to 3). One in Fortran's order becomes row by row.
/// The error names the file and what is wrong with it.
Result<Tensor> read_npy(const std::string& path);

/// Writes a .npy file, completely or not at all. numpy has no bfloat16: it is written as float32,
/// exactly.
Status write_npy(const std::string& path, const TensorView& tensor);

}  // namespace thimble
