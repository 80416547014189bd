#pragma once

#include <cstdint>

namespace thimble::platform {

/// The number of this process.
int64_t process_id();

}  // namespace thimble::platform
