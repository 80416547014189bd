#include "kernels/avx2/linear_bytes.h"
#include "kernels/avx2/linear_codes.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::avx2 {

void matvec_int2_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<2>>>(args); }
void matvec_int3_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<3>>>(args); }
void matvec_int4_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<4>>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<5>>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<6>>>(args); }
void matvec_int4(const LinearArgs& args) { linear_codes<Plain<Packed<4>>>(args); }
void matvec_int8(const LinearArgs& args) { linear_bytes<WholeRows>(args); }
void matvec_int8_groups(const LinearArgs& args) { linear_bytes<InGroups>(args); }

void matmul_int2_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Unpacked<2>>>(args); }
void matmul_int3_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Unpacked<3>>>(args); }
void matmul_int4_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Unpacked<4>>>(args); }
void matmul_int5_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Unpacked<5>>>(args); }
void matmul_int6_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Unpacked<6>>>(args); }
void matmul_int4(const LinearArgs& args) { linear_codes<Plain<Unpacked<4>>>(args); }
void matmul_int8(const LinearArgs& args) { linear_bytes<WholeRows>(args); }
void matmul_int8_groups(const LinearArgs& args) { linear_bytes<InGroups>(args); }

}  // namespace thimble::kernels::avx2
