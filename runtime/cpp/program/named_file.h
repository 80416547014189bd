#pragma once

#include <string>

#include "core/status.h"
#include "platform/mapped_file.h"

namespace thimble {

/// Maps a file that an option names; on failure the sentence says what to name, such as "a
/// picture".
/// \param no_file what to do where it is a pipe or a device.
Status open_named(const std::string& path, const std::string& kind, const std::string& no_file,
                  platform::MappedFile* file);

}  // namespace thimble
