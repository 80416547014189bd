#include "runner/threads.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include "runner/log_capture.h"

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

/// The performance cores that this process may use.
int32_t default_threads() {
  const auto usable = static_cast<int32_t>(std::thread::hardware_concurrency());
  const auto fast =
      static_cast<int32_t>(executorch::extension::cpuinfo::get_num_performant_cores());
  return std::clamp(fast > 0 ? std::min(fast, usable) : usable, 1, kMaxThreads);
}

}  // namespace

int32_t set_threads(int32_t threads) {
  LogCapture quiet;
  if (threads == 0) threads = default_threads();
  auto* pool = executorch::extension::threadpool::get_threadpool();
  if (pool == nullptr) return 1;
  if (pool->get_thread_count() != static_cast<size_t>(threads)) {
    pool->_unsafe_reset_threadpool(static_cast<uint32_t>(threads));
  }
  return static_cast<int32_t>(pool->get_thread_count());
}

}  // namespace thimble
