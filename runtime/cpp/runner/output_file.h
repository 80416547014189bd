#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/status.h"

namespace thimble {

/// Whether write_file() is likely to succeed: checked before the work.
Status check_writable(const std::string& path);

/// The path after following symbolic links; the file need not exist.
std::filesystem::path target_of(const std::filesystem::path& path);

/// Whether two paths are the same file, existing or not; devices do not count.
bool same_file(const std::string& a, const std::string& b);

/// Fails if writing to `path` would replace the model that runs.
Status check_not_model(const std::string& path, const std::string& model);

/// Writes the file under a temporary name next to target_of(path), then renames it: a reader sees
/// the old file or the complete new one. On failure no temporary file remains, and those of killed
/// processes are removed. The pieces follow one another.
Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces);

}  // namespace thimble
