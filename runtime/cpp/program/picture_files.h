#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "runner/runner.h"

namespace thimble {

/// Fails if a file cannot be read; standard input, "-", is not yet.
Status check_pictures(const std::vector<std::string>& paths);

/// Takes the pictures of files, or of standard input, into a text of the runner's model, in order,
/// behind `pictures`. Fails if it does not see, or with the first that cannot be read.
Result<Pictures> see_files(const Runner& runner, const std::vector<std::string>& paths,
                           Pictures pictures = {});

}  // namespace thimble
