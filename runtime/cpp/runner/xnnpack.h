#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include <cstdint>
#include <vector>

namespace thimble {

/// What programs need that run on anything but our own CPU delegate: ExecuTorch's kernels and its
/// thread pool. A runner that was built for our delegate alone has neither.

/// The kernels of operators that stay outside of delegates; ExecuTorch's own are in its registry.
std::vector<executorch::runtime::Kernel> operator_kernels();

/// Gives ExecuTorch's thread pool, which the whole process shares, `threads` threads; 0: one for
/// each core worth using. Returns how many it has.
int32_t set_pool_threads(int32_t threads);

}  // namespace thimble
