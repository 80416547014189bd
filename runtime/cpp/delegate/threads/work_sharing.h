#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "delegate/threads/share.h"

namespace thimble::cpu {

/// Divides units of work among threads as they get on. Each takes its own share from the front,
/// half of what is left at a time; one that has nothing left takes from the ends of the others'.
/// So neither a slow core nor one that another program uses keeps the others waiting for long.
class WorkSharing {
 public:
  explicit WorkSharing(size_t threads)
      : threads_(threads), shares_(std::make_unique<Share[]>(threads)) {}

  /// Calls work(range) with parts of 0 .. count until no thread has any left. All threads call this
  /// with the same numbers, and between two calls meet at a barrier.
  /// \param least units that a part has, if so many are left.
  template <typename Work>
  void run(size_t thread, size_t count, size_t least, Work&& work) {
    if (threads_ == 1 || count > kMostUnits) {
      const Range all = cpu::share(count, thread, threads_);
      if (all.size() > 0) work(all);
      return;
    }
    const uint16_t round = ++shares_[thread].round;
    Range part;
    while (take_own(thread, round, count, least, &part)) work(part);
    while (take_others(thread, round, count, least, &part)) work(part);
  }

 private:
  static constexpr size_t kUnitBits = 24, kMostUnits = (size_t{1} << kUnitBits) - 1;

  /// What is left of a thread's share. Whoever comes first in a round begins the share, since its
  /// own thread may be late.
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  ///< 16 bits of the round, 24 of the first unit, 24 of the last
    uint16_t round = 0;             ///< this thread's calls
  };

  static uint64_t packed(uint16_t round, Range left);
  bool take_own(size_t thread, uint16_t round, size_t count, size_t least, Range* part);
  bool take_others(size_t thread, uint16_t round, size_t count, size_t least, Range* part);
  Range left(size_t thread, uint16_t round, size_t count, uint64_t value) const;

  const size_t threads_;
  const std::unique_ptr<Share[]> shares_;
};

}  // namespace thimble::cpu
