#pragma once

#include <string>

namespace thimble {

/// While one exists, ExecuTorch's log messages on this thread are not printed. The first error is
/// kept: it is nearest to the cause. Other threads, and this one outside of any capture, log as
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
