#pragma once

#include "core/status.h"
#include "program/options.h"

namespace thimble {

/// Prints the text of each sound of the options. Returns the exit code.
Result<int> transcribe_files(const Options& options);

}  // namespace thimble
