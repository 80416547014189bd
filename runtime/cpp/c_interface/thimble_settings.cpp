#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "c_interface/shared.h"
#include "c_interface/thimble.h"
#include "tokenizer/utf8.h"

namespace {

using thimble::check;
using thimble::given;
using thimble::report;
using thimble::run_guarded;
using thimble::Status;

thimble_token to_c(const thimble::TokenLogprob& token) {
  return {token.token, token.logprob, token.text.data(), token.text.size()};
}

}  // namespace

thimble_settings* thimble_settings_new(void) { return new (std::nothrow) thimble_settings(); }

void thimble_settings_free(thimble_settings* settings) { delete settings; }

int thimble_settings_number(thimble_settings* settings, const char* name, double value, char* error,
                            size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status named = given({{"settings", settings}, {"name", name}});
    if (!named.ok()) return named;
    const thimble::AnswerNumber* number = thimble::find_answer_number(name);
    if (number == nullptr) {
      std::string names;
      for (const thimble::AnswerNumber& one : thimble::answer_numbers()) {
        names += (names.empty() ? "" : ", ") + std::string(one.name);
      }
      return Status::error(std::string(name) + " is not a setting: it must be one of " + names);
    }
    const Status right = number->check(value);
    if (right.ok()) settings->numbers[number] = value;
    return right;
  });
}

const char* thimble_answer_numbers(void) {
  static const std::string json = thimble::answer_numbers_json();
  return json.c_str();
}

const char* thimble_file_settings(thimble_runner* runner) {
  return thimble::guarded<const char*>("{}", nullptr, 0, [&]() -> const char* {
    if (runner == nullptr) return "{}";
    if (runner->file_settings.empty()) {
      const auto& sampling = runner->runner->model().program().sampling();
      runner->file_settings = thimble::to_json(thimble::known_numbers(sampling));
    }
    return runner->file_settings.c_str();
  });
}

void thimble_settings_special(thimble_settings* settings, thimble_text_callback on_special,
                              void* context) {
  if (settings == nullptr) return;
  settings->output.on_special = nullptr;
  if (on_special != nullptr) {
    settings->output.on_special = thimble::to_callback(on_special, context);
  }
}

void thimble_settings_wanted(thimble_settings* settings, thimble_wanted_callback is_wanted,
                             void* context) {
  if (settings == nullptr) return;
  settings->wanted = nullptr;
  if (is_wanted != nullptr) settings->wanted = [=] { return is_wanted(context) != 0; };
}

int thimble_settings_bias(thimble_settings* settings, int32_t token, double value, char* error,
                          size_t error_size) {
  return run_guarded(error, error_size, [&] {
    const Status right = thimble::first_error(
        {given({{"settings", settings}}),
         check<int32_t>("a token of logit_bias", token, 0, INT32_MAX),
         check("a value of logit_bias", value, -thimble::kMostBias, thimble::kMostBias)});
    if (right.ok()) settings->bias[token] = static_cast<float>(value);
    return right;
  });
}

int thimble_settings_stop(thimble_settings* settings, const char* text, size_t text_size,
                          char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> Status {
    const Status right =
        given({{"settings", settings}, {"text", text != nullptr || text_size == 0}});
    if (!right.ok()) return right;
    if (text_size == 0) {
      return Status::error("a stop text is empty: give at least one character");
    }
    settings->output.stop.push_back(thimble::with_valid_utf8({text, text_size}));
    return {};
  });
}

int thimble_settings_prediction(thimble_settings* settings, const char* text, size_t text_size,
                                char* error, size_t error_size) {
  return run_guarded(error, error_size, [&] {
    const Status right =
        given({{"settings", settings}, {"text", text != nullptr || text_size == 0}});
    if (right.ok()) settings->prediction = thimble::with_valid_utf8({text, text_size});
    return right;
  });
}

int thimble_settings_tokens(thimble_settings* settings, int32_t top,
                            thimble_token_callback on_token, void* context, char* error,
                            size_t error_size) {
  if (thimble_settings_number(settings, "logprobs", top, error, error_size) != 0) return 1;
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
  runner->lost_settings = thimble::guarded(true, nullptr, 0, [&] {
    runner->settings = settings != nullptr ? *settings : thimble_settings();
    return false;
  });
}
