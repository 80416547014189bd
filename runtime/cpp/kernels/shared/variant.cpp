#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"

namespace thimble::kernels::THIMBLE_VARIANT {

const Variant kVariant = {
    THIMBLE_VARIANT_NAME,
    kRequired,
    kTile,
    kFewRows,
    quantize,
    {matvec_int4_two_level, matvec_int5_two_level, matvec_int6_two_level, matvec_int4, matvec_int8,
     matvec_int8_groups},
    finish_sums,
    {matmul_int4_two_level, matmul_int5_two_level, matmul_int6_two_level, matmul_int4, matmul_int8,
     matmul_int8_groups},
    float_linear,
    shrink,
    expand,
    rms_norm,
    softmax,
    hadamard,
    rope,
    elementwise,
    glu,
    convolve,
    delta_rule,
    replay_delta,
    write_cache,
    attention,
    attention_split,
    attention_merge,
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
