#pragma once

#include "kernels/kernels.h"

namespace thimble::kernels::amx_int8 {

void matmul_int2_two_level(const LinearArgs& args);
void matmul_int3_two_level(const LinearArgs& args);
void matmul_int4_two_level(const LinearArgs& args);
void matmul_int5_two_level(const LinearArgs& args);
void matmul_int6_two_level(const LinearArgs& args);
void matmul_int4(const LinearArgs& args);
void matmul_int8(const LinearArgs& args);
void matmul_int8_groups(const LinearArgs& args);

}  // namespace thimble::kernels::amx_int8
