#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "platform/mapped_file.h"
#include "runner/runner.h"

namespace thimble {

/// Maps the file of a picture.
Status open_picture(const std::string& path, platform::MappedFile* file);

/// Takes the pictures of files into a text of the runner's model, in order, behind `pictures`.
/// Fails if it does not see, or with the first that cannot be read.
Result<Pictures> see_files(const Runner& runner, const std::vector<std::string>& paths,
                           Pictures pictures = {});

}  // namespace thimble
