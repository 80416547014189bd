#pragma once

#include <string>

namespace thimble {

/// While one lives, what ExecuTorch logs on this thread is not printed. The first error is kept:
/// it is the one nearest to the cause. Other threads, and this one outside of any capture, log as
/// they did before.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// The first error logged; empty if there was none.
  const std::string& error() const { return error_; }

 private:
  friend struct LogSink;
  LogCapture* outer_;
  std::string error_;
};

}  // namespace thimble
