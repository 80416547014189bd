#pragma once

#include "core/status.h"
#include "program/options.h"
#include "runner/runner.h"

namespace thimble {

/// Runs a chat over standard input, one turn per line, or a single turn if there is a prompt.
/// Answers go to standard output, everything else to standard error. A refused line has no effect,
/// except on the exit code, which is the result.
///
/// A line that starts with / is a command, without arguments; // starts a message that begins with
/// /.
Result<int> converse(Runner& runner, const Options& options, const GenerateOptions& generate);

}  // namespace thimble
