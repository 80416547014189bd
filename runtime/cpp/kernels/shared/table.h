/// \file
/// All functions of a namespace as a variant. Variants are constants of the compiler's: code that
/// filled one in at start would use its instruction set on processors that lack it. A variant that
/// borrows from another includes this for both, so there is no guard.

#include "kernels/shared/functions.h"

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr Variant table(const char* name, uint32_t required, Tile tile, size_t few_rows) {
  return {
      name,
      required,
      tile,
      few_rows,
      quantize,
      {matvec_int4_two_level, matvec_int5_two_level, matvec_int6_two_level, matvec_int4,
       matvec_int8, matvec_int8_groups, nullptr, matvec_int2_two_level, matvec_int3_two_level},
      finish_sums,
      {matmul_int4_two_level, matmul_int5_two_level, matmul_int6_two_level, matmul_int4,
       matmul_int8, matmul_int8_groups, nullptr, matmul_int2_two_level, matmul_int3_two_level},
      float_linear,
      shrink,
      expand,
      rms_norm,
      layer_norm,
      center,
      moments,
      xielu,
      softmax,
      hadamard,
      rope,
      elementwise,
      activate,
      glu,
      convolve,
      depthwise,
      delta_rule,
      replay_delta,
      text_attention,
      write_cache,
      attention,
      attention_split,
      attention_merge,
  };
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
