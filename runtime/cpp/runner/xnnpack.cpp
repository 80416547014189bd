#include "runner/xnnpack.h"

#include <dlfcn.h>

#include <algorithm>
#include <thread>

#include "ops/llama_ops.h"
#include "runner/log_capture.h"
#include "runner/session.h"

// The wheel's libraries hold these, its headers do not.
namespace executorch::extension {
namespace threadpool {
class ThreadPool {
 public:
  size_t get_thread_count() const;
  bool _unsafe_reset_threadpool(uint32_t num_threads);
};
ThreadPool* get_threadpool();
}  // namespace threadpool
namespace cpuinfo {
uint32_t get_num_performant_cores();
}
}  // namespace executorch::extension

namespace thimble {
namespace {

/// Brings in ExecuTorch's quantized kernels unless the process has them: two copies would abort it,
/// and Python's executorch.kernels.quantized carries its own.
void load_quantized_kernels() {
  static const bool done = [] {
    const LogCapture quiet;
    constexpr const char* kOne = "quantized_decomposed::embedding_byte.out";
    if (!executorch::runtime::registry_has_op_function(kOne)) {
      dlopen("libexecutorch_kernels_quantized.so", RTLD_NOW | RTLD_LOCAL);
    }
    return true;
  }();
  (void)done;
}

/// The performance cores that this process may use.
int32_t default_threads() {
  const auto usable = static_cast<int32_t>(std::thread::hardware_concurrency());
  const auto fast =
      static_cast<int32_t>(executorch::extension::cpuinfo::get_num_performant_cores());
  return std::clamp(fast > 0 ? std::min(fast, usable) : usable, 1, kMaxThreads);
}

}  // namespace

std::vector<executorch::runtime::Kernel> operator_kernels() {
  load_quantized_kernels();
  return llama_kernels();
}

int32_t set_pool_threads(int32_t threads) {
  const LogCapture quiet;
  if (threads == 0) threads = default_threads();
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr) return 1;
  if (pool->get_thread_count() != static_cast<size_t>(threads)) {
    pool->_unsafe_reset_threadpool(static_cast<uint32_t>(threads));
  }
  return static_cast<int32_t>(pool->get_thread_count());
}

}  // namespace thimble
