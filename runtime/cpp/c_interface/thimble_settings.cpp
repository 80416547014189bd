#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "c_interface/shared.h"
#include "c_interface/thimble.h"
#include "tokenizer/utf8.h"

namespace {

using thimble::check;
using thimble::given;
using thimble::report;

thimble_token to_c(const thimble::TokenLogprob& token) {
  return {token.token, token.logprob, token.text.data(), token.text.size()};
}

}  // namespace

thimble_settings* thimble_settings_new(void) { return new (std::nothrow) thimble_settings(); }

void thimble_settings_free(thimble_settings* settings) { delete settings; }

int thimble_settings_number(thimble_settings* settings, const char* name, double value, char* error,
                            size_t error_size) {
  const thimble::Status named = given({{"settings", settings}, {"name", name}});
  if (report(named, error, error_size) != 0) return 1;
  struct Number {
    const char* name;
    double low, high;
    float* value;
  };
  constexpr double kMost = thimble::kMostPenalty;
  thimble::LogitChangeOptions& changes = settings->changes;
  const Number numbers[] = {
      {"repetition_penalty", thimble::kLeastRepetitionPenalty, thimble::kMostRepetitionPenalty,
       &changes.repetition_penalty},
      {"presence_penalty", -kMost, kMost, &changes.presence_penalty},
      {"frequency_penalty", -kMost, kMost, &changes.frequency_penalty},
      {"special_text", 0, 1, nullptr},
  };
  std::string names;
  for (const Number& number : numbers) {
    names += (names.empty() ? "" : ", ") + std::string(number.name);
    if (std::string_view(name) != number.name) continue;
    const thimble::Status right = check(number.name, value, number.low, number.high);
    if (right.ok() && number.value != nullptr) *number.value = static_cast<float>(value);
    if (right.ok() && number.value == nullptr) settings->output.special_text = value != 0;
    return report(right, error, error_size);
  }
  return report(
      thimble::Status::error(std::string(name) + " is not a setting: it must be one of " + names),
      error, error_size);
}

int thimble_settings_bias(thimble_settings* settings, int32_t token, double value, char* error,
                          size_t error_size) {
  const thimble::Status right = thimble::first_error(
      {given({{"settings", settings}}),
       check<int32_t>("a token of logit_bias", token, 0, INT32_MAX),
       check("a value of logit_bias", value, -thimble::kMostBias, thimble::kMostBias)});
  if (report(right, error, error_size) != 0) return 1;
  settings->changes.bias[token] = static_cast<float>(value);
  return 0;
}

int thimble_settings_stop(thimble_settings* settings, const char* text, size_t text_size,
                          char* error, size_t error_size) {
  const thimble::Status right =
      given({{"settings", settings}, {"text", text != nullptr || text_size == 0}});
  if (report(right, error, error_size) != 0) return 1;
  if (text_size == 0) {
    return report(thimble::Status::error("a stop text is empty: give at least one character"),
                  error, error_size);
  }
  settings->output.stop.push_back(thimble::with_valid_utf8({text, text_size}));
  return 0;
}

int thimble_settings_tokens(thimble_settings* settings, int32_t top,
                            thimble_token_callback on_token, void* context, char* error,
                            size_t error_size) {
  const thimble::Status right =
      thimble::first_error({given({{"settings", settings}}),
                            check<int32_t>("logprobs", top, 0, thimble::kMostTopLogprobs)});
  if (report(right, error, error_size) != 0) return 1;
  settings->output.top_logprobs = top;
  settings->output.on_token = nullptr;
  if (on_token == nullptr) return 0;
  settings->output.on_token = [=](const thimble::ChosenLogprob& logprob) {
    const thimble_token chosen = to_c(logprob.chosen);
    std::vector<thimble_token> likeliest;
    for (const thimble::TokenLogprob& token : logprob.top) likeliest.push_back(to_c(token));
    on_token(&chosen, likeliest.data(), likeliest.size(), context);
  };
  return 0;
}

void thimble_use_settings(thimble_runner* runner, const thimble_settings* settings) {
  if (runner == nullptr) return;
  runner->settings = settings != nullptr ? *settings : thimble_settings();
}
