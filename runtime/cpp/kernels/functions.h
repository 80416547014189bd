#pragma once

/// \file
/// The functions that make up a variant, each defined once per variant in its own namespace.

#include "kernels/kernels.h"

namespace thimble::kernels::THIMBLE_VARIANT {

void quantize(const QuantizeArgs& args);
void matvec_int4_two_level(const LinearArgs& args);
void matvec_int4(const LinearArgs& args);
void matvec_int8(const LinearArgs& args);
void matmul_int4_two_level(const LinearArgs& args);
void matmul_int4(const LinearArgs& args);
void matmul_int8(const LinearArgs& args);
void float_linear(const FloatLinearArgs& args);

extern const Variant kVariant;

}  // namespace thimble::kernels::THIMBLE_VARIANT
