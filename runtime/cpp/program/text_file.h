#pragma once

#include <string>

#include "core/status.h"

namespace thimble {

/// Returns the text of a file that an option names.
Result<std::string> read_text_file(const std::string& path);

}  // namespace thimble
