#pragma once

#include <cstdint>
#include <string_view>

namespace thimble::platform {

bool input_is_terminal();
bool output_is_terminal();
bool error_is_terminal();
/// Whether standard output and standard error go to one file, pipe or terminal.
bool outputs_are_one();

/// Writes to standard output, without a buffer. Returns how many bytes were written; -1 on failure,
/// with errno: EINTR if a signal came first.
int64_t write_output(std::string_view text);

}  // namespace thimble::platform
