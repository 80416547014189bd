/// \file
/// The functions that make up a variant, each declared once per variant in the variant's namespace,
/// which table.h may be included for twice. Those that a variant borrows are not defined there.

#include "kernels/kernels.h"

namespace thimble::kernels::THIMBLE_VARIANT {

void quantize(const QuantizeArgs& args);
void matvec_int2_two_level(const LinearArgs& args);
void matvec_int3_two_level(const LinearArgs& args);
void matvec_int4_two_level(const LinearArgs& args);
void matvec_int5_two_level(const LinearArgs& args);
void matvec_int6_two_level(const LinearArgs& args);
void matvec_int4(const LinearArgs& args);
void matvec_int8(const LinearArgs& args);
void matvec_int8_groups(const LinearArgs& args);
void finish_sums(const LinearArgs& args, size_t parts);
void matmul_int2_two_level(const LinearArgs& args);
void matmul_int3_two_level(const LinearArgs& args);
void matmul_int4_two_level(const LinearArgs& args);
void matmul_int5_two_level(const LinearArgs& args);
void matmul_int6_two_level(const LinearArgs& args);
void matmul_int4(const LinearArgs& args);
void matmul_int8(const LinearArgs& args);
void matmul_int8_groups(const LinearArgs& args);
void float_linear(const FloatLinearArgs& args);
void shrink(const ShrinkArgs& args);
void expand(const ExpandArgs& args);
void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y);
void layer_norm(const LayerNormArgs& args);
void center(const CenterArgs& args);
void moments(const float* x, size_t n, float shift, float sums[2]);
void xielu(const XieluArgs& args);
void softmax(float* x, size_t n);
void hadamard(const float* x, size_t n, size_t block, float* y);
void rope(float* heads, size_t count, size_t head_dim, const float* cosines, const float* sines);
void elementwise(const ElementwiseArgs& args);
void activate(const ActivateArgs& args);
void glu(const GluArgs& args);
void convolve(const ConvolutionArgs& args);
void depthwise(const DepthwiseArgs& args);
void delta_rule(const DeltaArgs& args);
void replay_delta(const DeltaReplayArgs& args);
void write_cache(const CacheWriteArgs& args);
void text_attention(const TextAttentionArgs& args);
void attention(const AttentionArgs& args);
void attention_split(const AttentionArgs& args, size_t split, float* partial);
void attention_merge(const AttentionArgs& args, float* partials);

}  // namespace thimble::kernels::THIMBLE_VARIANT
