#pragma once

#include "core/status.h"
#include "program/options.h"

namespace thimble {

/// Runs a program of tensors once: from the files of --input to those of --output. `*began` becomes
/// true once the program runs.
Status run_on_files(const Options& options, bool* began);

}  // namespace thimble
