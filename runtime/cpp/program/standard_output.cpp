#include "program/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/longer_context.h"
#include "platform/streams.h"
#include "program/interrupt.h"

namespace thimble {
namespace {

constexpr char kNoReader[] = "standard output has no reader";
constexpr char kCannotWrite[] = "cannot write to standard output: ";

}  // namespace

bool StandardOutput::write(std::string_view text) {
  while (!text.empty() && status_.ok() && !given_up_) {
    const int64_t written = platform::write_output(text);
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EINTR) {
      given_up_ = interrupted();
    } else if (errno == EPIPE) {
      status_ = Status::error(kNoReader);
    } else {
      status_ = Status::error(std::string(kCannotWrite) + std::strerror(errno));
    }
  }
  return status_.ok() && !given_up_;
}

bool is_of_output(const Status& status) {
  return status.message() == kNoReader || status.message().rfind(kCannotWrite, 0) == 0;
}

void say_error(const Status& status) {
  if (status.message() == kNoReader) return;
  std::fprintf(stderr, "runner: %s\n", status.message().c_str());
}

void explain_end(const Runner& runner, const GenerateOptions& options) {
  if (runner.stats().stop_reason == StopReason::kContextFull) {
    std::fprintf(
        stderr,
        "runner: the context is full (%lld tokens): the answer ends here; for longer ones, %s\n",
        static_cast<long long>(runner.model().program().max_context_len()),
        export_longer().c_str());
  } else if (runner.stats().stop_reason == StopReason::kInterrupted) {
    std::fprintf(stderr, "runner: interrupted\n");
  }
  if (runner.stats().reasons) {
    const bool is_cut = runner.stats().stop_reason == StopReason::kLength;
    std::fprintf(stderr,
                 "runner: the answer ends within the model's reasoning, which --special-text "
                 "shows%s\n",
                 is_cut ? "; a larger -n lets it go on" : "");
  }
  if (!runner.stats().incomplete) return;
  if (runner.stats().stop_reason == StopReason::kLength) {
    std::fprintf(stderr,
                 "runner: the answer is not complete: the %lld tokens of -n end it, and its "
                 "constraint goes on behind them\n",
                 static_cast<long long>(options.max_new_tokens));
  } else if (runner.stats().stop_reason == StopReason::kContextFull) {
    std::fprintf(stderr,
                 "runner: the answer is not complete: the context ends it, and its constraint "
                 "goes on behind that\n");
  } else if (runner.stats().stop_reason == StopReason::kEos) {
    std::fprintf(stderr,
                 "runner: the answer is not complete: %s ends it, and its constraint goes on "
                 "behind that\n",
                 runner.stats().end_text.c_str());
  }
}

int code_of(const Stats& stats) {
  if (stats.stop_reason == StopReason::kInterrupted) return kInterrupted;
  const bool by_user = stats.stop_reason == StopReason::kStop;  // by the user
  return stats.incomplete && !by_user ? kIncomplete : 0;
}

}  // namespace thimble
