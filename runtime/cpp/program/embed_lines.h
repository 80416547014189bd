#pragma once

#include "core/status.h"
#include "program/options.h"

namespace thimble {

/// Prints a line of numbers for the prompt of the options, or for each line of standard input.
/// Returns the exit code.
Result<int> embed_lines(const Options& options);

}  // namespace thimble
