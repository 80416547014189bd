#pragma once

#include <cstddef>
#include <string>

#include "delegate/metal/dispatch.h"
#include "delegate/metal/shim/grid.h"

namespace thimble::test {

/// A kernel of the source, run by the shim: what its signature asks for, and a call of one thread.
struct ShimKernel {
  const char* name;
  size_t buffer_count;  ///< before its constants
  bool uses_memory;
  void (*run)(void* const* buffers, const void* constants,
              const metal_shim::ThreadPosition& position, void* memory);
};

/// The kernel that a dispatch means.
const ShimKernel& shim_kernel(metal::Kernel kernel);

/// Runs a dispatch on memory. Returns what is wrong with it, or "".
/// \param buffers in the order of the dispatch, its offsets added.
std::string run_on_shim(const metal::Dispatch& dispatch, void* const* buffers,
                        metal_shim::Order order);

}  // namespace thimble::test
