#pragma once

/// \file
/// Threads over WebAssembly's atomics, as its C++ library has none. JavaScript starts workers that
/// wait in thimble_web_serve(); a Thread gives one of them its work. Memory is shared, but malloc()
/// has no lock: only the thread that starts the others may allocate.

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

namespace thimble::platform::wasm {

/// Sleeps while `*address` is `value`, until notify_all(); it may also return before. Ends the
/// module if a thread has failed, as nobody would ever wake this one.
void wait(std::atomic<uint32_t>* address, uint32_t value);
void notify_all(std::atomic<uint32_t>* address);

class Mutex {
 public:
  void lock() {
    while (!try_lock()) wait(&locked_, 1);
  }
  void unlock() {
    locked_.store(0, std::memory_order_release);
    notify_all(&locked_);
  }
  bool try_lock() { return locked_.exchange(1, std::memory_order_acquire) == 0; }

 private:
  std::atomic<uint32_t> locked_{0};
};

class ConditionVariable {
 public:
  template <typename Lock, typename Condition>
  void wait(Lock& lock, Condition holds) {
    while (!holds()) {
      const uint32_t round = round_.load(std::memory_order_seq_cst);
      lock.unlock();
      wasm::wait(&round_, round);
      lock.lock();
    }
  }
  void notify_all() {
    round_.fetch_add(1, std::memory_order_seq_cst);
    wasm::notify_all(&round_);
  }

 private:
  std::atomic<uint32_t> round_{0};
};

class Thread {
 public:
  /// Ends the module if there is no worker for it.
  template <typename Work>
  explicit Thread(Work work) : worker_(start(std::move(work))) {}
  Thread(Thread&& other) noexcept : worker_(other.worker_) {}
  void join();

 private:
  static uint32_t start(std::function<void()> work);

  uint32_t worker_;
};

}  // namespace thimble::platform::wasm
