#pragma once

#include <cstdint>

namespace thimble::platform {

/// The most memory that this process has held so far, in bytes.
int64_t peak_memory_bytes();

}  // namespace thimble::platform
