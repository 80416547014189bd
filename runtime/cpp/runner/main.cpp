/// The command line: options in, text to standard output, everything else to standard error.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "runner/chat.h"
#include "runner/options.h"
#include "runner/output_file.h"
#include "runner/recording_signal.h"
#include "runner/runner.h"
#include "runner/session_file.h"

namespace thimble {
namespace {

constexpr int kFailed = 1, kBadUse = 2, kInterrupted = 130;  // exit codes; 130 as shells have it

std::atomic<bool> interrupted{false};

/// Ctrl-C asks the answer to end; a second one ends the program.
void catch_interrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // and no SA_RESTART: reading a line ends too
  sigaction(SIGINT, &action, nullptr);
}

int fail(const Status& status, int code) {
  std::fprintf(stderr, "runner: %s\n", status.message().c_str());
  return code;
}

/// Writes text as it comes. Standard output that fails ends the answer, and so does Ctrl-C while
/// nobody reads.
class Output {
 public:
  bool write(std::string_view text) {
    while (!text.empty() && status_.ok() && !given_up_) {
      const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
      if (written >= 0) {
        text.remove_prefix(static_cast<size_t>(written));
      } else if (errno == EINTR) {
        given_up_ = interrupted;
      } else {
        status_ =
            Status::error(std::string("cannot write to standard output: ") + std::strerror(errno));
      }
    }
    return status_.ok() && !given_up_;
  }
  Runner::TextCallback callback() {
    return [this](std::string_view text) { return write(text); };
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
  bool given_up_ = false;
};

/// Says on standard error why an answer ended, where the text alone does not.
void explain_end(const Runner& runner) {
  if (runner.stats().stop_reason == StopReason::kContextFull) {
    std::fprintf(stderr,
                 "runner: the context is full (%lld tokens): the answer ends here; export with a "
                 "larger --max-context-len for longer ones\n",
                 static_cast<long long>(runner.model().program().max_context_len()));
  } else if (runner.stats().stop_reason == StopReason::kInterrupted) {
    std::fprintf(stderr, "runner: interrupted\n");
  }
}

/// The exit code after one answer that nothing followed.
int code_of(const Stats& stats) {
  return stats.stop_reason == StopReason::kInterrupted ? kInterrupted : 0;
}

Result<int> continue_prompt(Runner& runner, const Options& options,
                            const GenerateOptions& generate) {
  const Result<std::vector<int32_t>> tokens = runner.encode_prompt(*options.prompt);
  if (!tokens.ok()) return tokens.status();
  Output output;
  Status status = runner.generate(*tokens, generate, output.callback());
  // Into a file or a pipe goes the text alone.
  if (status.ok() && isatty(STDOUT_FILENO) != 0) output.write("\n");
  if (status.ok()) status = output.status();
  if (!status.ok()) return status;
  explain_end(runner);
  return code_of(runner.stats());
}

Status take_turn(Chat& chat, Runner& runner, const std::vector<int32_t>& tokens,
                 const GenerateOptions& generate) {
  Output output;
  Status status = chat.answer(tokens, generate, output.callback());
  if (status.ok()) output.write("\n");
  if (status.ok()) status = output.status();
  if (status.ok()) explain_end(runner);
  return status;
}

Result<int> take_only_turn(Chat& chat, Runner& runner, const std::string& message,
                           const GenerateOptions& generate) {
  const Result<std::vector<int32_t>> tokens = chat.ask(message);
  if (!tokens.ok()) return tokens.status();
  const Status status = take_turn(chat, runner, *tokens, generate);
  if (!status.ok()) return status;
  return code_of(runner.stats());
}

/// A line a turn. One that is refused is as if it had not been said; a script learns of it by the
/// exit code.
Result<int> converse(Runner& runner, const Options& options, const GenerateOptions& generate) {
  if (runner.model().chat_template() == nullptr) {
    return Status::error(runner.model().chat_template_error());
  }
  Chat chat(runner, options.system);
  if (options.prompt) return take_only_turn(chat, runner, *options.prompt, generate);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  int code = 0;
  std::string line;
  for (;;) {
    if (terminal) std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line)) {
      if (terminal) std::fprintf(stderr, "\n");
      return code;
    }
    if (line.empty()) continue;
    const Result<std::vector<int32_t>> tokens = chat.ask(line);
    if (tokens.ok()) {
      const Status status = take_turn(chat, runner, *tokens, generate);
      if (!status.ok()) return status;
      if (runner.stats().stop_reason == StopReason::kContextFull) return code;
    } else {
      const int failed = fail(tokens.status(), kFailed);
      if (!terminal) code = failed;
    }
    if (interrupted.exchange(false)) catch_interrupt();
  }
}

/// Whether two names are of one file, that there is or that there will be; a device is not one.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  const std::filesystem::path first = std::filesystem::weakly_canonical(target_of(a), unknown);
  return first == std::filesystem::weakly_canonical(target_of(b), unknown) &&
         (!std::filesystem::exists(first, unknown) ||
          std::filesystem::is_regular_file(first, unknown));
}

Status check_outputs(const Options& options) {
  Status status = check_session(options.session);
  if (!status.ok()) return status;
  std::vector<std::string> files{options.model};
  for (const std::string& path : {options.etdump, options.json, options.session}) {
    if (path.empty()) continue;
    for (const std::string& other : files) {
      if (same_file(path, other)) {
        return Status::error(path + " is named twice: give each file a name of its own");
      }
    }
    status = check_writable(path);
    if (!status.ok()) return status;
    files.push_back(path);
  }
  return {};
}

Status verify(const std::string& model) {
  const Result<PteFile> file = PteFile::open(model);
  if (!file.ok()) return file.status();
  Status sound = file->verify();
  if (!sound.ok()) return sound;
  std::fprintf(stderr, "runner: %s is whole: all checksums match\n", model.c_str());
  return {};
}

/// Goes on from the session in the file, if there is one yet.
Status resume(Runner& runner, const std::string& path) {
  if (path.empty()) return {};
  if (access(path.c_str(), F_OK) == 0) return runner.restore(path);
  return runner.model().session_for("saved").status();
}

/// The exit code, where nothing failed outright.
Result<int> run(const Options& options) {
  Status status = check_outputs(options);
  if (!status.ok()) return status;
  if (options.verify) {
    status = verify(options.model);
    if (!status.ok()) return status;
    if (!options.prompt && !options.chat) return 0;
  }
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Runner>> loaded = Runner::load(options.model, options.load);
  if (!loaded.ok()) return loaded.status();
  Runner& runner = **loaded;
  RecordingSignal signal(runner.model().program().recorder(), options.etdump);
  status = resume(runner, options.session);
  if (!status.ok()) return status;

  GenerateOptions generate;
  generate.max_new_tokens = options.max_new_tokens;
  generate.sampler = options.sampler;
  generate.sampler.seed = options.seed ? *options.seed : std::random_device()();
  generate.interrupted = &interrupted;
  catch_interrupt();

  if (options.prompt) runner.model().program().recorder().note("prompt", *options.prompt);
  const Result<int> code = options.chat ? converse(runner, options, generate)
                                        : continue_prompt(runner, options, generate);
  if (!code.ok()) return code;
  std::fprintf(stderr, "runner: %s\n", to_line(runner.stats()).c_str());
  if (!options.session.empty()) {
    status = runner.save(options.session);
    if (!status.ok()) return status;
  }
  status = signal.finish();
  if (!status.ok()) return status;
  if (!options.json.empty()) status = write_file(options.json, {to_json(runner.stats())});
  if (!status.ok()) return status;
  return code;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  const thimble::Result<thimble::Options> options = thimble::parse_options(argc, argv);
  if (!options.ok()) return thimble::fail(options.status(), thimble::kBadUse);
  if (options->help) {
    std::fputs(thimble::usage(), stdout);
    return 0;
  }
  const thimble::Result<int> code = thimble::run(*options);
  return code.ok() ? *code : thimble::fail(code.status(), thimble::kFailed);
}
