#pragma once

#include "core/status.h"
#include "runner/options.h"
#include "runner/runner.h"

namespace thimble {

/// A chat by lines of standard input, a line a turn, or one turn where a prompt is given. Answers
/// go to standard output, everything else to standard error. A line that is refused is as if it had
/// not been said; a script learns of it by the exit code, which is the result.
///
/// A line that starts with / is a command, which only counts when it stands alone; // starts a
/// message that begins with /.
Result<int> converse(Runner& runner, const Options& options, const GenerateOptions& generate);

}  // namespace thimble
