#include "delegate/threads/thread_team.h"

#include <algorithm>
#include <chrono>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

#include "platform/processors.h"

namespace thimble::cpu {
namespace {

/// A sleeping thread takes about 50 microseconds to wake: spinning for as long is worth it if every
/// thread has its own core. Otherwise, a spinning thread would keep another from working.
constexpr int64_t kSpinNanoseconds = 50000;
/// Where so many waits in a row ended in sleep, others have the cores: until one does not, a thread
/// spins only as long as it would if the last member were about to arrive.
constexpr uint32_t kMostMisses = 4;
constexpr int64_t kShortSpinNanoseconds = 2000;
/// Reads of the flag between two reads of the clock.
constexpr int kLooks = 32;

/// Tells the CPU that this thread spins.
inline void relax() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int64_t now_nanoseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t spin_nanoseconds(size_t threads) {
  const size_t cores = platform::processors();
  return cores == 0 || threads <= cores ? kSpinNanoseconds : 0;
}

}  // namespace

void Barrier::wait() {
  const uint32_t round = round_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    // Sequentially consistent here and in sleep(): either this sees the sleeper, or the sleeper
    // sees the new round.
    round_.store(round + 1, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) {
      const std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    return;
  }
  if (!spin(round)) sleep(round);
}

bool Barrier::spin(uint32_t round) {
  const uint32_t misses = misses_.load(std::memory_order_relaxed);
  const int64_t most =
      misses < kMostMisses ? spin_nanoseconds_ : std::min(spin_nanoseconds_, kShortSpinNanoseconds);
  int64_t start = -1;
  while (true) {
    for (int look = 0; look < kLooks; ++look) {
      if (round_.load(std::memory_order_acquire) != round) {
        if (misses != 0) misses_.store(0, std::memory_order_relaxed);
        return true;
      }
      relax();
    }
    const int64_t now = now_nanoseconds();
    if (start < 0) start = now;
    if (now - start >= most) break;
  }
  misses_.store(misses + 1, std::memory_order_relaxed);
  return false;
}

void Barrier::sleep(uint32_t round) {
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  wake_.wait(lock, [&] { return round_.load(std::memory_order_seq_cst) != round; });
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

ThreadTeam::ThreadTeam(size_t threads)
    : size_(threads), barrier_(threads, spin_nanoseconds(threads)), sharing_(threads) {
  threads_.reserve(size_ - 1);
  for (size_t thread = 1; thread < size_; ++thread) {
    threads_.emplace_back([this, thread] { serve(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  function_ = nullptr;
  barrier();
  for (platform::Thread& thread : threads_) thread.join();
}

void ThreadTeam::serve(size_t thread) {
  while (true) {
    barrier_.wait();
    if (function_ == nullptr) return;
    function_(context_, thread);
    barrier_.wait();
  }
}

}  // namespace thimble::cpu
