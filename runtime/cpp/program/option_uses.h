#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "program/options.h"

namespace thimble {

/// Fails if an option has no effect on what the others ask for: a sound, embeddings, a program of
/// tensors, or an answer; or if options contradict each other, or one that is needed is missing.
/// \param given the full names of the options that the command line has.
Status check_uses(const Options& options, const std::vector<std::string>& given);

}  // namespace thimble
