#pragma once

/// \file
/// What the standard library has of threads, under names that also exist where it has none.

#include <mutex>

#if defined(__wasm_atomics__)
#include "platform/wasm/threads.h"
#elif defined(__wasi__)
#include <cstdlib>
#else
#include <condition_variable>
#include <thread>
#endif

namespace thimble::platform {

#if defined(__wasm_atomics__)

/// Whether a Thread can be started.
inline constexpr bool kHasThreads = true;
using Mutex = wasm::Mutex;
using ConditionVariable = wasm::ConditionVariable;
using Thread = wasm::Thread;

#elif defined(__wasi__)

inline constexpr bool kHasThreads = false;

class Mutex {
 public:
  void lock() {}
  void unlock() {}
  bool try_lock() { return true; }
};

class ConditionVariable {
 public:
  /// The condition holds: nobody else could make it hold.
  template <typename Lock, typename Condition>
  void wait(Lock&, Condition) {}
  void notify_all() {}
};

class Thread {
 public:
  template <typename Work>
  explicit Thread(Work) {
    std::abort();
  }
  void join() {}
};

#else

inline constexpr bool kHasThreads = true;
using Mutex = std::mutex;
using ConditionVariable = std::condition_variable;
using Thread = std::thread;

#endif

}  // namespace thimble::platform
