#include "platform/streams.h"

#include <unistd.h>

namespace thimble::platform {

bool input_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool output_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

int64_t write_output(std::string_view text) {
  return ::write(STDOUT_FILENO, text.data(), text.size());
}

}  // namespace thimble::platform
