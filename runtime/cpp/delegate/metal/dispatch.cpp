#include "delegate/metal/dispatch.h"

#include "delegate/metal/params.h"

namespace thimble::metal {
namespace {

constexpr uint32_t kLanes = 16;
constexpr uint32_t kFloats = sizeof(float);
constexpr uint32_t kRowThreads = 128;
constexpr uint32_t kColumnThreads = 64;
constexpr uint32_t kHeadThreads = 64;
/// A query, scores and weights of 64 positions, 16 lanes.
constexpr uint32_t kAttentionBytes = (THIMBLE_METAL_MOST_HEAD_DIM + 2 * 64 + kLanes) * kFloats;
constexpr uint32_t kHeadBytes = (kLanes + THIMBLE_METAL_MOST_HEAD_DIM) * kFloats;

/// In the order of Kernel.
constexpr KernelShape kShapes[kKernelCount] = {
    {"embed_rows", kRowThreads, 0},
    {"norm_rows", kRowThreads, kLanes * kFloats},
    {"rotate_rows", kRowThreads, kLanes * kFloats},
    {"quantize_rows", kRowThreads, (kLanes + 2 * kRowThreads) * kFloats},
    {"add_rows", kColumnThreads, 0},
    {"swiglu_rows", kColumnThreads, 0},
    {"matvec_int4_two_level", 128, 128 * sizeof(int32_t)},
    {"matvec_int5_two_level", 128, 128 * sizeof(int32_t)},
    {"matvec_int6_two_level", 128, 128 * sizeof(int32_t)},
    {"matvec_int4", 128, 128 * sizeof(int32_t)},
    {"matvec_int8", 128, 128 * sizeof(int32_t)},
    {"matvec_int8_groups", 128, 128 * sizeof(int32_t)},
    {"matmul_int4_two_level", 128, 512 * sizeof(int32_t)},
    {"matmul_int5_two_level", 128, 512 * sizeof(int32_t)},
    {"matmul_int6_two_level", 128, 512 * sizeof(int32_t)},
    {"matmul_int4", 128, 512 * sizeof(int32_t)},
    {"matmul_int8", 128, 512 * sizeof(int32_t)},
    {"matmul_int8_groups", 128, 512 * sizeof(int32_t)},
    {"float_linear", 64, 512 * kFloats},
    {"prepare_heads_float16", kHeadThreads, kHeadBytes},
    {"prepare_heads_float32", kHeadThreads, kHeadBytes},
    {"attention_float16", kHeadThreads, kAttentionBytes},
    {"attention_float32", kHeadThreads, kAttentionBytes},
    {"attention_split_float16", kHeadThreads, kAttentionBytes},
    {"attention_split_float32", kHeadThreads, kAttentionBytes},
    {"attention_merge", kHeadThreads, kAttentionBytes},
};

}  // namespace

const KernelShape& shape_of(Kernel kernel) { return kShapes[static_cast<size_t>(kernel)]; }

}  // namespace thimble::metal
