#pragma once

#include <executorch/runtime/kernel/operator_registry.h>

#include <cstdint>
#include <vector>

namespace thimble {

/// What programs need that run on anything but our own CPU delegate: ExecuTorch's kernels and its
/// thread pool. A runner that was built for our delegate alone has neither.

/// The kernels of operators that stay outside of delegates; ExecuTorch's own are in its registry.
std::vector<executorch::runtime::Kernel> operator_kernels();

/// A program's use of ExecuTorch's thread pool, which the whole process shares. XNNPACK keeps its
/// address from the load on and a change of its size makes a new pool, so the first program of ours
/// decides: while it lives, the others run on as many threads. A program that something else in the
/// process loaded must not be alive when `threads` is another number than the pool has.
class ThreadPoolUse {
 public:
  /// 0: as many threads as the pool has, but no more than there are cores to use.
  explicit ThreadPoolUse(int32_t threads);
  ~ThreadPoolUse();
  ThreadPoolUse(const ThreadPoolUse&) = delete;
  ThreadPoolUse& operator=(const ThreadPoolUse&) = delete;

  int32_t threads() const { return threads_; }

 private:
  int32_t threads_ = 1;
};

}  // namespace thimble
