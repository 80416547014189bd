#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/status.h"

namespace thimble {

/// Whether write_file() is likely to succeed: asked before work whose result it is to hold.
Status check_writable(const std::string& path);

/// Where a name leads through symbolic links, whether there is a file or not yet.
std::filesystem::path target_of(const std::filesystem::path& path);

/// Writes the file under a temporary name beside target_of(path), then renames it: a reader sees
/// the old file or the whole new one. On failure nothing is left behind. The pieces follow one
/// another.
Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces);

}  // namespace thimble
