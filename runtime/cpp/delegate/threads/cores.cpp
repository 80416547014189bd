#include "delegate/threads/cores.h"

#include <algorithm>

#include "platform/processors.h"

namespace thimble::cpu {

size_t default_threads() {
  const size_t fast = platform::fast_cores();
  return std::clamp<size_t>(fast > 0 ? fast : platform::processors(), 1, kMostThreads);
}

}  // namespace thimble::cpu
