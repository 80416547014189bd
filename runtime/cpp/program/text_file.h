#pragma once

#include <string>
#include <string_view>

#include "core/status.h"

namespace thimble {

/// Returns the text of a file that an option names.
Result<std::string> read_text_file(const std::string& path);

/// Returns the text of standard input.
Result<std::string> read_input_text();

/// Reads a line of standard input, without its end. Returns false behind the last one.
Result<bool> read_input_line(std::string* line);

/// Fails if a text is not UTF-8.
/// \param name what the sentence calls it.
Status check_utf8(const std::string& name, std::string_view text);

}  // namespace thimble
