#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "delegate/threads/work_sharing.h"
#include "platform/threads.h"

namespace thimble::cpu {

/// A barrier: threads wait until all have arrived. A waiting thread first spins, then sleeps; if
/// none sleeps, no lock is taken. Where others use the cores, it hardly spins.
class Barrier {
 public:
  /// \param members threads that meet here, at least 1.
  /// \param spin_nanoseconds how long to spin before sleeping.
  Barrier(size_t members, int64_t spin_nanoseconds)
      : members_(static_cast<uint32_t>(members)), spin_nanoseconds_(spin_nanoseconds) {}
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;

  /// Returns once every member has called it. What a member wrote before, all can read after.
  void wait();

 private:
  /// Waits until round_ is no longer `round`; returns false if that takes too long.
  bool spin(uint32_t round);
  /// The same without an end.
  void sleep(uint32_t round);

  const uint32_t members_;
  const int64_t spin_nanoseconds_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> misses_{0};  ///< waits of any member that ended in sleep, one after another
  platform::Mutex mutex_;
  platform::ConditionVariable wake_;
};

/// Threads that live as long as the team and work together on one function at a time. The thread
/// that calls run() is one of them, so a team of one has no thread of its own.
class ThreadTeam {
 public:
  /// \param threads at least 1.
  explicit ThreadTeam(size_t threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  size_t size() const { return size_; }

  /// Calls work(i) on every thread, i below size(), the caller's being 0; returns when all have
  /// returned. One caller at a time. `work` must not throw.
  template <typename Work>
  void run(Work&& work) {
    if (size_ == 1) {
      work(size_t{0});
      return;
    }
    using Function = std::remove_reference_t<Work>;
    function_ = [](void* context, size_t thread) { (*static_cast<Function*>(context))(thread); };
    context_ = const_cast<std::remove_const_t<Function>*>(&work);
    barrier_.wait();
    work(size_t{0});
    barrier_.wait();
  }

  /// Inside run(): waits until every thread of the team is here.
  void barrier() {
    if (size_ > 1) barrier_.wait();
  }

  /// Inside run(), by every thread with the same numbers, and no other such call before the next
  /// barrier: WorkSharing::run().
  template <typename Work>
  void share_out(size_t thread, size_t count, size_t least, Work&& work) {
    sharing_.run(thread, count, least, work);
  }

 private:
  void serve(size_t thread);

  const size_t size_;
  Barrier barrier_;
  WorkSharing sharing_;
  void (*function_)(void* context, size_t thread) = nullptr;  ///< null: threads should end
  void* context_ = nullptr;
  std::vector<platform::Thread> threads_;
};

}  // namespace thimble::cpu
