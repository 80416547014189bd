/// The command line: writes the text to standard output, everything else to standard error.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "answer/sampler.h"
#include "model/session_file.h"
#include "model/version.h"
#include "platform/output_file.h"
#include "platform/processors.h"
#include "platform/signals.h"
#include "platform/streams.h"
#include "program/audio_lines.h"
#include "program/chat_lines.h"
#include "program/embed_lines.h"
#include "program/interrupt.h"
#include "program/options.h"
#include "program/picture_files.h"
#include "program/recording_signal.h"
#include "program/standard_output.h"
#include "program/tensor_files.h"
#include "runner/draft.h"
#include "runner/runner.h"

namespace thimble {
namespace {

// kBadUse: the request is not possible; kFailed: the work failed after it began.
constexpr int kFailed = 1, kBadUse = 2, kSignalled = 128;

int fail(const Status& status, int code) {
  say_error(status);
  return is_of_output(status) ? kFailed : code;
}

/// Returns the exit code.
int print(const std::string& text) {
  StandardOutput output;
  output.write(text);
  return output.status().ok() ? 0 : fail(output.status(), kFailed);
}

Result<int> continue_prompt(Runner& runner, const Options& options,
                            const GenerateOptions& generate) {
  const Result<Pictures> pictures = see_files(runner, options.images);
  if (!pictures.ok()) return pictures.status();
  const Result<std::vector<int32_t>> tokens =
      pictures->empty() ? runner.encode_prompt(*options.prompt)
                        : runner.encode_prompt(*options.prompt, *pictures);
  if (!tokens.ok()) return tokens.status();
  StandardOutput output;
  const Status status = runner.generate(*tokens, generate, output.callback());
  if (!status.ok()) return status;
  // A file or a pipe gets only the text, unless what follows goes there too.
  if (platform::output_is_terminal() || platform::outputs_are_one()) output.write("\n");
  if (!output.status().ok()) return fail(output.status(), kFailed);
  explain_end(runner, generate);
  return code_of(runner.stats());
}

/// Fails if one file has two purposes.
Status check_names(const Options& options) {
  std::vector<std::string> files{options.model};
  std::vector<std::string> outputs{options.etdump, options.json, options.session};
  for (const NamedFile& file : options.inputs) files.push_back(file.path);
  files.insert(files.end(), options.images.begin(), options.images.end());
  for (const NamedFile& file : options.outputs) outputs.push_back(file.path);
  for (const std::string& path : outputs) {
    if (path.empty()) continue;
    for (const std::string& other : files) {
      if (platform::same_file(path, other)) {
        return Status::error(
            path + " is named twice: give each output a file of its own, which is no input");
      }
    }
    files.push_back(path);
  }
  return {};
}

Status check_outputs(const Options& options) {
  Status status = check_session(options.session);
  for (const std::string& path : {options.etdump, options.json, options.session}) {
    if (status.ok() && !path.empty()) status = platform::check_writable(path);
  }
  return status;
}

/// Fails if what stands beside the model cannot be read: that may take long to load.
Status check_inputs(const Options& options) {
  Status status = check_constraint(options.constraint);
  if (status.ok()) status = check_pictures(options.images);
  if (!status.ok() || options.draft.empty() || options.draft == kDraftNgram) return status;
  return PteFile::open(options.draft, options.load.signer).status();
}

Status verify(const std::string& model, const std::string& signer) {
  const Result<PteFile> file = PteFile::open(model, signer);
  if (!file.ok()) return file.status();
  Status sound = file->verify();
  if (!sound.ok()) return sound;
  std::fprintf(stderr, "runner: %s is not damaged: all checksums match\n", model.c_str());
  return {};
}

/// Writes every requested file, even if one fails; false if one fails.
bool write_files(Runner& runner, const Options& options, RecordingSignal& signal,
                 const std::vector<ChosenLogprob>& logprobs) {
  bool all = true;
  const auto check = [&all](const Status& status) {
    if (!status.ok()) fail(status, kFailed);
    all = all && status.ok();
  };
  if (!options.session.empty()) check(runner.save(options.session));
  check(signal.finish());
  if (!options.json.empty()) {
    const std::string tokens = options.logprobs ? to_json(logprobs) : "";
    check(platform::write_file(options.json, {to_json(runner.stats(), tokens)}));
  }
  return all;
}

/// Resumes from the session in the file, if it exists.
Status resume(Runner& runner, const std::string& path) {
  if (path.empty()) return {};
  if (platform::file_kind(path) != platform::FileKind::kAbsent) return runner.restore(path);
  return runner.model().session_for("saved").status();
}

/// The constraint of the options, null if there is none; says what is to be known about it.
Result<std::unique_ptr<Constraint>> compile(Runner& runner, const ConstraintText& text) {
  Result<std::unique_ptr<Constraint>> constraint = runner.compile(text);
  if (!constraint.ok() || *constraint == nullptr) return constraint;
  for (const std::string& note : (*constraint)->notes()) {
    std::fprintf(stderr, "runner: %s\n", note.c_str());
  }
  for (const std::string& what : (*constraint)->left_out()) {
    std::fprintf(stderr, "runner: left out: %s\n", what.c_str());
  }
  return constraint;
}

/// Samples as the file says where the command line does not say otherwise, and tells it.
void use_file_settings(Runner& runner, const Options& options, GenerateOptions* generate) {
  std::string settings;
  for (const auto& [number, value] : known_numbers(runner.model().program().sampling())) {
    if (options.numbers.count(number) != 0) continue;
    number->set(generate, value);
    settings += std::string(settings.empty() ? "" : ", ") + number->name + " " + shown(value);
  }
  if (settings.empty() || options.quiet) return;
  std::fprintf(stderr, "runner: sampling as the model's authors set it: %s\n", settings.c_str());
}

/// As the command line has it: --top-k.
std::string option_name(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

/// Says which of the options given have no effect, and why.
void tell_of_no_effect(const Options& options, const GenerateOptions& generate) {
  std::map<std::string, std::string> idle;  // by what they need
  const bool is_greedy = Sampler(generate.sampler).is_greedy();
  if (is_greedy && options.seed) idle["temperature"] = "--seed";
  for (const auto& [number, value] : options.numbers) {
    if (number->needs() == nullptr) continue;
    const std::string needed = number->needs();
    const bool lacks =
        needed == "temperature" ? is_greedy : find_answer_number(needed)->get(generate) == 0;
    if (!lacks) continue;
    std::string& names = idle[needed];
    names += (names.empty() ? "" : ", ") + option_name(number->name);
  }
  for (const auto& [needed, names] : idle) {
    const std::string why = needed == "temperature"
                                ? "at temperature 0 the most likely token is taken"
                                : option_name(needed) + " is 0";
    std::fprintf(stderr, "runner: %s, without effect of %s\n", why.c_str(), names.c_str());
  }
}

/// Returns the exit code.
int run(const Options& options) {
  Status status = check_names(options);
  if (status.ok()) status = check_outputs(options);
  if (status.ok()) status = check_inputs(options);
  if (!status.ok()) return fail(status, kBadUse);
  if (options.verify) {
    status = verify(options.model, options.load.signer);
    if (!status.ok()) return fail(status, kBadUse);
    if (!options.prompt && !options.chat && !options.embed && !options.takes_tensors() &&
        options.audio.empty()) {
      return 0;
    }
  }
  if (!options.audio.empty()) {
    const Result<int> code = transcribe_files(options);
    return code.ok() ? *code : fail(code.status(), kBadUse);
  }
  if (options.embed) {
    const Result<int> code = embed_lines(options);
    return code.ok() ? *code : fail(code.status(), kBadUse);
  }
  if (options.takes_tensors()) {
    bool began = false;
    status = run_on_files(options, &began);
    return status.ok() ? 0 : fail(status, began ? kFailed : kBadUse);
  }
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Runner>> loaded = Runner::load(options.model, options.load);
  if (!loaded.ok()) return fail(loaded.status(), kBadUse);
  Runner& runner = **loaded;
  RecordingSignal signal(runner.model().program().recorder(), options.etdump);
  status = runner.use_adapter(options.adapter);
  if (!status.ok()) return fail(status, kBadUse);
  status = use_draft(runner, options.draft);
  if (!status.ok()) return fail(status, kBadUse);
  status = resume(runner, options.session);
  if (!status.ok()) return fail(status, kBadUse);

  Result<std::unique_ptr<Constraint>> constraint = compile(runner, options.constraint);
  if (!constraint.ok()) return fail(constraint.status(), kBadUse);

  GenerateOptions generate = options.answer;
  use_file_settings(runner, options, &generate);
  tell_of_no_effect(options, generate);
  generate.constraint = constraint->get();
  generate.sampler.seed = options.seed ? *options.seed : std::random_device()();
  std::vector<ChosenLogprob> logprobs;
  if (options.logprobs) {
    generate.output.on_token = [&logprobs](const ChosenLogprob& token) {
      logprobs.push_back(token);
    };
  }
  generate.interrupted = &interrupted();
  catch_interrupt();

  if (options.prompt) runner.model().program().recorder().note("prompt", *options.prompt);
  const Result<int> code = options.chat ? converse(runner, options, generate)
                                        : continue_prompt(runner, options, generate);
  if (!code.ok()) return fail(code.status(), runner.stats().prefill_s > 0 ? kFailed : kBadUse);
  if (!options.quiet) std::fprintf(stderr, "runner: %s\n", to_line(runner.stats()).c_str());
  if (!write_files(runner, options, signal, logprobs)) return kFailed;
  return ended() == 0 ? *code : kSignalled + ended();
}

/// Says where there are more threads than run at once: they wait for each other.
void tell_of_threads(int32_t threads) {
  const auto processors = static_cast<int32_t>(platform::processors());
  if (processors == 0 || threads <= processors) return;
  std::fprintf(stderr,
               "runner: --threads %d is more than the %d that run at once here: fewer are faster\n",
               threads, processors);
}

/// Returns the exit code.
int run_command(int argc, char** argv) {
  const Result<Options> options = parse_options(argc, argv);
  if (!options.ok()) return fail(options.status(), kBadUse);
  if (options->help) return print(usage());
  if (options->version) return print(version_text());
  tell_of_threads(options->load.threads);
  return run(*options);
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  // A reader that goes and a limit on a file's size are errors of writing: other files are written.
  thimble::platform::ignore_write_signals();
  try {
    return thimble::run_command(argc, argv);
  } catch (const std::bad_alloc&) {  // a sentence of its own would need memory
    std::fputs("runner: there is not enough memory: free some, or ask for less\n", stderr);
    return thimble::kFailed;
  } catch (const std::exception& thrown) {  // as where the system starts no further thread
    std::fprintf(stderr, "runner: it failed: %s\n", thrown.what());
    return thimble::kFailed;
  }
}
