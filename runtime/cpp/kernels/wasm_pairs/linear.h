#pragma once

#include "kernels/kernels.h"

namespace thimble::kernels::wasm_pairs {

void matvec_int2_two_level(const LinearArgs& args);
void matvec_int3_two_level(const LinearArgs& args);
void matvec_int4_two_level(const LinearArgs& args);
void matvec_int5_two_level(const LinearArgs& args);
void matvec_int6_two_level(const LinearArgs& args);
void matvec_int4(const LinearArgs& args);
void matmul_int2_two_level(const LinearArgs& args);
void matmul_int3_two_level(const LinearArgs& args);
void matmul_int4_two_level(const LinearArgs& args);
void matmul_int5_two_level(const LinearArgs& args);
void matmul_int6_two_level(const LinearArgs& args);
void matmul_int4(const LinearArgs& args);

}  // namespace thimble::kernels::wasm_pairs
