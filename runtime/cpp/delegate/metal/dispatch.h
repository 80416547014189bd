#pragma once

/// \file
/// One run of a kernel over a grid: all that a device must know of a model.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace thimble::metal {

/// The kernels, named as in kernels/*.metal.
enum class Kernel : uint8_t {
  kEmbedRows,
  kNormRows,
  kRotateRows,
  kQuantizeRows,
  kAddRows,
  kSwigluRows,
  kMatvecInt4TwoLevel,
  kMatvecInt5TwoLevel,
  kMatvecInt6TwoLevel,
  kMatvecInt4,
  kMatvecInt8,
  kMatvecInt8Groups,
  kMatmulInt4TwoLevel,
  kMatmulInt5TwoLevel,
  kMatmulInt6TwoLevel,
  kMatmulInt4,
  kMatmulInt8,
  kMatmulInt8Groups,
  kFloatLinear,
  kPrepareHeadsFloat16,
  kPrepareHeadsFloat32,
  kAttentionFloat16,
  kAttentionFloat32,
  kAttentionSplitFloat16,
  kAttentionSplitFloat32,
  kAttentionMerge,
};
constexpr size_t kKernelCount = 26;

/// How a kernel is started, whatever the model.
struct KernelShape {
  const char* name;
  uint32_t threads;       ///< of a threadgroup
  uint32_t memory_bytes;  ///< of a threadgroup: threadgroup(0), a multiple of 16
};
const KernelShape& shape_of(Kernel kernel);

/// A place in one of the numbered buffers of a plan.
struct BufferRef {
  uint32_t buffer;
  size_t offset;  ///< in bytes
};

constexpr size_t kMostBuffers = 5;
constexpr size_t kMostConstantBytes = 80;

/// The buffers are the kernel's buffer(0) and on, the constants the one behind them.
struct Dispatch {
  Kernel kernel;
  uint32_t debug_id;   ///< of the operator, or its part, that it belongs to
  uint32_t groups[3];  ///< threadgroups of the grid
  uint32_t buffer_count;
  BufferRef buffers[kMostBuffers];
  uint32_t constant_bytes;
  alignas(uint32_t) uint8_t constants[kMostConstantBytes];

  template <typename Params>
  void set_constants(const Params& params) {
    static_assert(sizeof(Params) <= kMostConstantBytes && std::is_trivially_copyable_v<Params>);
    constant_bytes = sizeof(Params);
    std::memcpy(constants, &params, sizeof(Params));
  }
};

}  // namespace thimble::metal
