#include "model/xnnpack.h"

#include <algorithm>
#include <mutex>

#include "llama_ops/llama_ops.h"
#include "model/log_capture.h"
#include "platform/processors.h"
#include "platform/shared_library.h"

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
      platform::load_shared_library(
          "libexecutorch_kernels_quantized.so",
          reinterpret_cast<const void*>(&executorch::runtime::get_registered_kernels));
    }
    return true;
  }();
  (void)done;
}

std::mutex pool_mutex;
int pool_uses = 0;

}  // namespace

std::vector<executorch::runtime::Kernel> operator_kernels() {
  load_quantized_kernels();
  return llama_kernels();
}

ThreadPoolUse::ThreadPoolUse(int32_t threads) {
  const LogCapture quiet;
  const std::lock_guard<std::mutex> lock(pool_mutex);
  auto* pool = executorch::extension::threadpool::get_threadpool();
  ++pool_uses;
  if (pool == nullptr) return;
  const auto has = static_cast<int32_t>(pool->get_thread_count());
  const auto cores = static_cast<int32_t>(platform::processors());
  if (threads == 0) threads = std::clamp(has, 1, std::max(cores, 1));
  if (pool_uses == 1 && threads != has) {
    pool->_unsafe_reset_threadpool(static_cast<uint32_t>(threads));
  }
  threads_ = static_cast<int32_t>(pool->get_thread_count());
}

ThreadPoolUse::~ThreadPoolUse() {
  const std::lock_guard<std::mutex> lock(pool_mutex);
  --pool_uses;
}

}  // namespace thimble
