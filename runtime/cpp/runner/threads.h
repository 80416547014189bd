#pragma once

#include <cstdint>

namespace thimble {

inline constexpr int32_t kMaxThreads = 256;

/// Gives ExecuTorch's thread pool, which the whole process shares, `threads` threads; 0: one for
/// each core worth using. Returns how many it has.
int32_t set_threads(int32_t threads);

}  // namespace thimble
