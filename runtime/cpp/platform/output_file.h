#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/status.h"

namespace thimble::platform {

/// What a path leads to, links followed.
enum class FileKind { kAbsent, kRegular, kOther };
FileKind file_kind(const std::string& path);

/// Whether write_file() is likely to succeed: checked before the work.
Status check_writable(const std::string& path);

/// Whether two paths are the same file, existing or not; devices do not count.
bool same_file(const std::string& a, const std::string& b);

/// Writes the file under a temporary name next to it (links are followed first), then renames it: a
/// reader sees the old file or the complete new one. On failure no temporary file remains, and
/// those of killed processes are removed. The pieces follow one another.
Status write_file(const std::string& path, std::initializer_list<std::string_view> pieces);

}  // namespace thimble::platform
