#include "platform/streams.h"

#include <sys/stat.h>
#include <unistd.h>

namespace thimble::platform {

bool input_is_terminal() { return isatty(STDIN_FILENO) != 0; }
bool output_is_terminal() { return isatty(STDOUT_FILENO) != 0; }
bool error_is_terminal() { return isatty(STDERR_FILENO) != 0; }

bool outputs_are_one() {
  struct stat output = {}, error = {};
  return fstat(STDOUT_FILENO, &output) == 0 && fstat(STDERR_FILENO, &error) == 0 &&
         output.st_dev == error.st_dev && output.st_ino == error.st_ino;
}

int64_t write_output(std::string_view text) {
  return ::write(STDOUT_FILENO, text.data(), text.size());
}

}  // namespace thimble::platform
