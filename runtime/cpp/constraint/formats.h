#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace thimble {

/// The regular expression that a JSON schema's format stands for, to match a string as a whole;
/// none if it is not supported.
std::optional<std::string_view> format_regex(std::string_view format);

/// Whether a format says nothing about a string's characters, such as path or binary.
bool is_free_format(std::string_view format);

/// Those that are supported, for a sentence.
std::string format_names();

}  // namespace thimble
