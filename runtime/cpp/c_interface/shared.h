#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "answer/answer_numbers.h"
#include "c_interface/thimble.h"
#include "runner/runner.h"

/// \file
/// What the files of the C interface share.

struct thimble_settings {
  std::map<const thimble::AnswerNumber*, double> numbers;  ///< those that were set
  std::map<int32_t, float> bias;
  thimble::OutputOptions output;
};

struct thimble_runner {
  explicit thimble_runner(std::unique_ptr<thimble::Runner> loaded) : runner(std::move(loaded)) {}

  std::unique_ptr<thimble::Runner> runner;
  std::string stats;
  thimble_settings settings;
  std::atomic<bool> interrupted{false};
  thimble::ConstraintText constraint_text;
  std::unique_ptr<thimble::Constraint> constraint;
  std::string notes;          ///< of the constraint
  std::string chat_template;  ///< as JSON, once it was asked for
};

namespace thimble {

/// Writes the sentence of an error, if it is one; returns what the functions of C return.
inline int report(const Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  std::snprintf(error, error_size, "%s", status.message().c_str());
  return 1;
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

inline Status check(const thimble_options& options) {
  const auto number = [](const char* name) { return *find_answer_number(name); };
  return first_error({number("max_new_tokens").check(options.max_new_tokens),
                      number("temperature").check(double{options.temperature}),
                      number("top_k").check(int64_t{options.top_k}),
                      number("top_p").check(double{options.top_p}),
                      number("min_p").check(double{options.min_p})});
}

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
  for (const auto& [number, value] : settings.numbers) number->set(&generate, value);
  return generate;
}

inline TextCallback to_callback(thimble_text_callback on_text, void* context) {
  return [=](std::string_view text) { return on_text(text.data(), text.size(), context) != 0; };
}

}  // namespace thimble
