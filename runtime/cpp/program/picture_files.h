#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "picture/picture.h"

namespace thimble {

/// Reads files of pictures, in order.
Result<std::vector<Picture>> read_pictures(const std::vector<std::string>& paths);

}  // namespace thimble
