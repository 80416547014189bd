#include "model/log_capture.h"

#include <executorch/runtime/kernel/operator_registry.h>
#include <executorch/runtime/platform/platform.h>

#include <algorithm>
#include <atomic>
#include <string_view>

#include "platform/threads.h"

namespace thimble {
namespace {

thread_local LogCapture* current_capture = nullptr;
std::atomic<pal_emit_log_message_method> emit_before{nullptr};

/// A list of a program's own kernels is searched first, and says what it lacks.
bool is_in_registry(std::string_view message) {
  constexpr std::string_view kStart = "kernel '", kEnd = "' not found.";
  if (message.substr(0, kStart.size()) != kStart) return false;
  message.remove_prefix(kStart.size());
  const std::string_view name = message.substr(0, message.find(kEnd));
  const auto kernels = executorch::runtime::get_registered_kernels();
  return std::any_of(kernels.begin(), kernels.end(),
                     [name](const auto& kernel) { return kernel.name_ == name; });
}

}  // namespace

/// The log function that replaces ExecuTorch's and decides who gets a message.
struct LogSink {
  static void emit(et_timestamp_t timestamp, et_pal_log_level_t level, const char* filename,
                   const char* function, size_t line, const char* message, size_t length) {
    if (current_capture == nullptr) {
      emit_before.load()(timestamp, level, filename, function, line, message, length);
      return;
    }
    const bool is_error = level == kError || level == kFatal;
    if (is_error && current_capture->error_.empty() && !is_in_registry({message, length})) {
      current_capture->error_.assign(message, length);
    }
  }

  /// Writes to ExecuTorch's table itself: register_pal() would print that it was called twice in a
  /// process where another extension, such as Python's, has registered a log function of its own.
  static void install() {
    static platform::Mutex mutex;
    const std::lock_guard lock(mutex);
    auto* table = const_cast<executorch::runtime::PalImpl*>(executorch::runtime::get_pal_impl());
    if (table->emit_log_message == &LogSink::emit) return;
    emit_before = table->emit_log_message;
    table->emit_log_message = &LogSink::emit;
  }
};

LogCapture::LogCapture() : outer_(current_capture) {
  LogSink::install();
  current_capture = this;
}

LogCapture::~LogCapture() { current_capture = outer_; }

}  // namespace thimble
