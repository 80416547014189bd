#pragma once

#include <cstddef>

namespace thimble::cpu {

constexpr size_t kMostThreads = 256;

/// How many threads are worth starting: one for each core that this process may use, a core that
/// runs two threads counted once, and slow cores (of less than half the capacity of the fastest)
/// not at all. 1 to kMostThreads.
size_t default_threads();

}  // namespace thimble::cpu
