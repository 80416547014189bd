#include "platform/wasm/threads.h"

#include <cstdlib>

namespace thimble::platform::wasm {
namespace {

constexpr int64_t kPatience = 100'000'000;  // nanoseconds between two looks at `failed`

/// A worker's states, in order; it is idle again after its work.
enum State : uint32_t { kAbsent, kIdle, kWorking };

struct Worker {
  std::atomic<uint32_t> state{kAbsent};
  std::function<void()> work;
};

constexpr uint32_t kMostWorkers = 64;
Worker workers[kMostWorkers];
std::atomic<bool> failed{false};

}  // namespace

void wait(std::atomic<uint32_t>* address, uint32_t value) {
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(address), static_cast<int>(value),
                                      kPatience);
  if (failed.load(std::memory_order_relaxed)) std::abort();
}

void notify_all(std::atomic<uint32_t>* address) {
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(address), UINT32_MAX);
}

uint32_t Thread::start(std::function<void()> work) {
  for (uint32_t i = 0; i < kMostWorkers; ++i) {
    if (workers[i].state.load(std::memory_order_acquire) != kIdle) continue;
    workers[i].work = std::move(work);
    workers[i].state.store(kWorking, std::memory_order_release);
    notify_all(&workers[i].state);
    return i;
  }
  std::abort();
}

void Thread::join() {
  std::atomic<uint32_t>& state = workers[worker_].state;
  while (state.load(std::memory_order_acquire) == kWorking) wait(&state, kWorking);
  workers[worker_].work = nullptr;
}

}  // namespace thimble::platform::wasm

extern "C" {

using namespace thimble::platform::wasm;

/// Makes a worker one of those that can have work.
[[gnu::visibility("default")]] void thimble_web_announce(uint32_t worker) {
  if (worker >= kMostWorkers) std::abort();
  workers[worker].state.store(kIdle, std::memory_order_release);
}

/// What a worker does: never returns.
[[gnu::visibility("default")]] void thimble_web_serve(uint32_t worker) {
  std::atomic<uint32_t>& state = workers[worker].state;
  while (true) {
    while (state.load(std::memory_order_acquire) != kWorking) wait(&state, kIdle);
    workers[worker].work();
    state.store(kIdle, std::memory_order_release);
    notify_all(&state);
  }
}

/// Tells the others that a worker has failed, so that they do not wait for it.
[[gnu::visibility("default")]] void thimble_web_fail(void) { failed.store(true); }

/// Whether one has.
[[gnu::visibility("default")]] int thimble_web_failed(void) { return failed.load() ? 1 : 0; }
}
