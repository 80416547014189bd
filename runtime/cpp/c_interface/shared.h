#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/answer_numbers.h"
#include "c_interface/thimble.h"
#include "model/recorder.h"
#include "runner/runner.h"

/// \file
/// What the files of the C interface share.

struct thimble_settings {
  std::map<const thimble::AnswerNumber*, double> numbers;  ///< those that were set
  std::map<int32_t, float> bias;
  thimble::OutputOptions output;
  std::string prediction;
  thimble::StillWanted wanted;  ///< asked while a constraint is compiled
};

struct thimble_runner {
  explicit thimble_runner(std::unique_ptr<thimble::Runner> loaded) : runner(std::move(loaded)) {}

  std::unique_ptr<thimble::Runner> runner;
  std::string stats;
  thimble_settings settings;
  bool lost_settings = false;  ///< there was no memory for those that it was given
  std::atomic<bool> interrupted{false};
  thimble::ConstraintText constraint_text;
  std::unique_ptr<thimble::Constraint> constraint;
  std::string notes;          ///< of the constraint
  std::string chat_template;  ///< as JSON, once it was asked for
  std::string file_settings;  ///< the same
  std::string picture_form;   ///< the same
};

namespace thimble {

/// Writes the sentence of an error, if it is one; returns what the functions of C return.
inline int report(const Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  std::snprintf(error, error == nullptr ? 0 : error_size, "%s", status.message().c_str());
  return 1;
}

/// Runs what a function of C does; what it throws, as for want of memory, becomes its error.
template <typename Value, typename Work>
Value guarded(Value failed, char* error, size_t error_size, const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    (void)report(Status::error("there is not enough memory: free some, or ask for less"), error,
                 error_size);
  } catch (const std::exception& thrown) {
    (void)report(Status::error(std::string("it failed: ") + thrown.what()), error, error_size);
  }
  return failed;
}

/// The same of a function that returns 0 on success, whose work returns a Status.
template <typename Work>
int run_guarded(char* error, size_t error_size, const Work& work) {
  return guarded(1, error, error_size, [&] { return report(work(), error, error_size); });
}

/// Fails if one of the named pointers is null.
inline Status given(std::initializer_list<std::pair<const char*, bool>> pointers) {
  for (const auto& [name, is_given] : pointers) {
    if (!is_given) return Status::error(std::string(name) + " is null, but must not be");
  }
  return {};
}

/// The number of tokens, of which as many as fit are written.
inline int64_t write_tokens(const std::vector<int32_t>& sampled, int32_t* tokens,
                            int64_t capacity) {
  const auto count = static_cast<int64_t>(sampled.size());
  if (tokens != nullptr)
    std::copy_n(sampled.begin(), std::clamp<int64_t>(capacity, 0, count), tokens);
  return count;
}

/// Whether a number is in its range; NaN is in none.
template <typename T>
Status check(const char* name, T value, T low, T high) {
  if (low <= value && value <= high) return {};
  std::ostringstream sentence;
  sentence << name << " is " << value << ", but must be from " << low << " to " << high;
  return Status::error(sentence.str());
}

/// The first of them that is an error.
inline Status first_error(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return {};
}

/// A text in pieces.
inline Result<std::vector<Piece>> read_pieces(const thimble_piece* pieces, int64_t count) {
  Status right = first_error(
      {given({{"pieces", pieces || count == 0}}), check<int64_t>("count", count, 0, INT32_MAX)});
  std::vector<Piece> text;
  for (int64_t i = 0; right.ok() && i < count; ++i) {
    const thimble_piece& piece = pieces[i];
    right = given({{"the text of a piece", piece.text || piece.size == 0}});
    if (!right.ok()) break;
    text.push_back({std::string(std::string_view(piece.text, piece.size)), piece.literal != 0});
  }
  if (!right.ok()) return right;
  return text;
}

inline Status check(const thimble_options& options) {
  const auto number = [](const char* name) { return *find_answer_number(name); };
  return first_error({number("max_new_tokens").check(options.max_new_tokens),
                      number("temperature").check(double{options.temperature}),
                      number("top_k").check(int64_t{options.top_k}),
                      number("top_p").check(double{options.top_p}),
                      number("min_p").check(double{options.min_p})});
}

/// Starts a recording of at most so many calls and bytes; 0: the defaults.
inline Status start_recording(Recorder& recorder, int64_t max_calls, int64_t max_bytes) {
  constexpr int64_t kMaxBytes = int64_t{1} << 30;  // a flatbuffer ends at 2 GB
  const Status right = first_error({check<int64_t>("max_calls", max_calls, 0, INT32_MAX),
                                    check<int64_t>("max_bytes", max_bytes, 0, kMaxBytes)});
  if (!right.ok()) return right;
  RecordingBounds bounds;
  if (max_calls > 0) bounds.max_calls = max_calls;
  if (max_bytes > 0) bounds.max_bytes = max_bytes;
  return recorder.start(bounds);
}

/// Ends the recording and writes it, to a path that is not the model's own file.
inline Status stop_recording(Recorder& recorder, const PteFile& file, const char* path,
                             thimble_recording* recording) {
  const Status allowed = file.check_output(path);
  if (!allowed.ok()) return allowed;
  const auto recorded = recorder.stop(path);
  if (recorded.ok()) *recording = {recorded->calls, recorded->dropped_calls};
  return recorded.status();
}

/// Those that null stands for.
inline constexpr thimble_options kDefaultOptions = {0, 0.0f, 0, 1.0f, 0.0f, 0};

/// Without the constraint. A number of the settings wins over that of the options.
inline GenerateOptions to_generate(const thimble_options& options,
                                   const thimble_settings& settings) {
  GenerateOptions generate;
  generate.max_new_tokens = options.max_new_tokens;
  generate.sampler.temperature = options.temperature;
  generate.sampler.top_k = options.top_k;
  generate.sampler.top_p = options.top_p;
  generate.sampler.min_p = options.min_p;
  generate.sampler.seed = options.seed;
  generate.sampler.changes.bias = settings.bias;
  generate.output = settings.output;
  generate.prediction = settings.prediction;
  for (const auto& [number, value] : settings.numbers) number->set(&generate, value);
  return generate;
}

/// What an answer must be; with the sentence of what is wrong, if it is.
inline Result<ConstraintText> to_constraint(int32_t kind, const char* text, size_t text_size) {
  const bool relax = (kind & THIMBLE_RELAX) != 0;
  const int32_t plain = relax ? kind - THIMBLE_RELAX : kind;
  const bool has_text = text != nullptr || text_size == 0 || plain == THIMBLE_ANY_TEXT;
  const Status right = first_error(
      {given({{"the constraint's text", has_text}}),
       check<int32_t>("the constraint's kind", plain, THIMBLE_ANY_TEXT, THIMBLE_GRAMMAR)});
  if (!right.ok()) return right;
  ConstraintText constraint;
  constraint.kind = static_cast<ConstraintText::Kind>(plain);
  if (constraint.kind == ConstraintText::Kind::kNone) return constraint;
  constraint.text = std::string_view(text, text_size);
  constraint.relax = relax;
  return constraint;
}

inline TextCallback to_callback(thimble_text_callback on_text, void* context) {
  return [=](std::string_view text) { return on_text(text.data(), text.size(), context) != 0; };
}

/// With the constraint, and what interrupts it.
inline GenerateOptions generate_options(const thimble_options& options,
                                        const thimble_runner& runner) {
  if (runner.lost_settings) throw std::bad_alloc();
  GenerateOptions generate = to_generate(options, runner.settings);
  generate.constraint = runner.constraint.get();
  generate.interrupted = &runner.interrupted;
  return generate;
}

}  // namespace thimble
