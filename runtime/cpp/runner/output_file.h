#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/status.h"

namespace thimble {

/// Whether write_file() is likely to succeed: asked before work whose result it is to hold.
Status check_writable(const std::string& path);

/// Writes the file under a temporary name beside `path`, then renames it: a reader sees the old
/// file or the whole new one. On failure nothing is left behind. The pieces follow one another.
Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces);

}  // namespace thimble
