#include "delegate/threads/work_sharing.h"

#include <algorithm>

namespace thimble::cpu {
namespace {

/// Units of the next part of so many.
size_t part_of(size_t left, size_t least) { return std::min(left, std::max(least, left / 2)); }

}  // namespace

uint64_t WorkSharing::packed(uint16_t round, Range left) {
  return uint64_t{round} << 2 * kUnitBits | uint64_t{left.first} << kUnitBits | left.last;
}

// The threads meet at a barrier between rounds, which orders what the units write, so the order of
// these operations among others does not matter.

bool WorkSharing::take_own(size_t thread, uint16_t round, size_t count, size_t least, Range* part) {
  std::atomic<uint64_t>& mine = shares_[thread].left;
  uint64_t value = mine.load(std::memory_order_relaxed);
  while (true) {
    const Range rest = left(thread, round, count, value);
    const size_t middle = rest.first + part_of(rest.size(), least);
    // An empty share is written too: its round is never older than one.
    if (mine.compare_exchange_weak(value, packed(round, {middle, rest.last}),
                                   std::memory_order_relaxed)) {
      *part = {rest.first, middle};
      return part->size() > 0;
    }
  }
}

bool WorkSharing::take_others(size_t thread, uint16_t round, size_t count, size_t least,
                              Range* part) {
  for (size_t i = 1; i < threads_;) {
    const size_t other = (thread + i) % threads_;
    uint64_t value = shares_[other].left.load(std::memory_order_relaxed);
    const Range rest = left(other, round, count, value);
    if (rest.size() == 0) {
      ++i;
      continue;
    }
    const size_t middle = rest.last - part_of(rest.size(), least);
    if (shares_[other].left.compare_exchange_weak(value, packed(round, {rest.first, middle}),
                                                  std::memory_order_relaxed)) {
      *part = {middle, rest.last};
      return true;
    }
  }
  return false;
}

Range WorkSharing::left(size_t thread, uint16_t round, size_t count, uint64_t value) const {
  if (value >> 2 * kUnitBits != round) return share(count, thread, threads_);
  return {static_cast<size_t>(value >> kUnitBits & kMostUnits),
          static_cast<size_t>(value & kMostUnits)};
}

}  // namespace thimble::cpu
