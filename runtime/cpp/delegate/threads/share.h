#pragma once

#include <cstddef>

namespace thimble::cpu {

/// Numbers from `first` up to, but without, `last`.
struct Range {
  size_t first;
  size_t last;

  size_t size() const { return last - first; }
};

/// The part of 0 .. count that falls to a thread: parts follow one another and differ by one at
/// most.
inline Range share(size_t count, size_t thread, size_t threads) {
  const size_t each = count / threads, more = count % threads;
  const size_t first = thread * each + (thread < more ? thread : more);
  return {first, first + each + (thread < more ? 1 : 0)};
}

/// The same in whole steps, but for the end of the last.
inline Range share(size_t count, size_t step, size_t thread, size_t threads) {
  const Range steps = share((count + step - 1) / step, thread, threads);
  const size_t last = steps.last * step;
  const size_t first = steps.first * step;
  return {first < count ? first : count, last < count ? last : count};
}

}  // namespace thimble::cpu
