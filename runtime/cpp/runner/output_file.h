#pragma once

#include <cstddef>
#include <string>

#include "core/status.h"

namespace thimble {

/// Whether write_file() is likely to succeed: asked before work whose result it is to hold.
Status check_writable(const std::string& path);

/// Writes the file under a temporary name beside `path`, then renames it: a reader sees the old
/// file or the whole new one. On failure nothing is left behind.
Status write_file(const std::string& path, const void* data, size_t size);

}  // namespace thimble
