#pragma once

#include <string_view>

#include "core/status.h"
#include "runner/runner.h"

namespace thimble {

inline constexpr int kInterrupted = 130;  ///< the exit code, as shells have it
inline constexpr int kIncomplete = 3;     ///< that of an answer that its constraint goes on behind

/// Writes text as it comes. Standard output that fails ends the answer, and so does Ctrl-C while
/// nobody reads.
class StandardOutput {
 public:
  bool write(std::string_view text);
  TextCallback callback() {
    return [this](std::string_view text) { return write(text); };
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
  bool given_up_ = false;
};

/// Whether an error is that standard output failed, or has no reader anymore.
bool is_of_output(const Status& status);

/// Writes an error to standard error; that standard output has no reader anymore is none to tell,
/// as behind `| head -1`.
void say_error(const Status& status);

/// Says on standard error why an answer ended, where the text alone does not.
void explain_end(const Runner& runner, const GenerateOptions& options);

/// The exit code after one answer that nothing followed.
int code_of(const Stats& stats);

}  // namespace thimble
