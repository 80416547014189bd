#include "kernels/avx2/linear_bytes.h"
#include "kernels/avx2/linear_codes.h"
#include "kernels/shared/functions.h"

namespace thimble::kernels::avxvnni {

void matvec_int2_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<2>>>(args); }
void matvec_int3_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<3>>>(args); }
void matvec_int4_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<4>>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<5>>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { linear_codes<TwoLevel<Packed<6>>>(args); }
void matvec_int4(const LinearArgs& args) { linear_codes<Plain<Packed<4>>>(args); }
void matvec_int8(const LinearArgs& args) { linear_bytes<WholeRows>(args); }
void matvec_int8_groups(const LinearArgs& args) { linear_bytes<InGroups>(args); }

}  // namespace thimble::kernels::avxvnni
