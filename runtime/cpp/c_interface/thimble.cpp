#include "c_interface/thimble.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_interface/load_options.h"
#include "c_interface/shared.h"
#include "constraint/json.h"
#include "model/version.h"
#include "runner/draft.h"
#include "runner/runner.h"
#include "tokenizer/utf8.h"

namespace {

using thimble::check;
using thimble::first_error;
using thimble::generate_options;
using thimble::given;
using thimble::guarded;
using thimble::report;
using thimble::run_guarded;
using thimble::to_callback;
using thimble::to_load;
using thimble::write_tokens;

static_assert(static_cast<int>(thimble::ConstraintText::Kind::kJsonSchema) == THIMBLE_JSON_SCHEMA &&
              static_cast<int>(thimble::ConstraintText::Kind::kRegex) == THIMBLE_REGEX &&
              static_cast<int>(thimble::ConstraintText::Kind::kChoice) == THIMBLE_CHOICE &&
              static_cast<int>(thimble::ConstraintText::Kind::kGrammar) == THIMBLE_GRAMMAR);

thimble_runner* to_handle(thimble::Result<std::unique_ptr<thimble::Runner>> runner, char* error,
                          size_t error_size) {
  if (report(runner.status(), error, error_size) != 0) return nullptr;
  return new thimble_runner(std::move(*runner));
}

std::string to_json(const thimble::ChatTemplate& stored, const thimble::Tokenizer& tokenizer) {
  const auto quoted = [](std::string_view text) {
    return thimble::quoted_json(thimble::with_valid_utf8(text));
  };
  std::string special;
  for (const std::string_view text : tokenizer.special_tokens()) {
    special += (special.empty() ? "" : ", ") + quoted(text);
  }
  const auto quoted_or_null = [&quoted](std::optional<std::string_view> text) {
    return text ? quoted(*text) : std::string("null");
  };
  std::string named;
  for (const auto& [name, text] : stored.tokens()) {
    named += (named.empty() ? "" : ", ") + quoted(name) + ": " + quoted(text);
  }
  return "{\"source\": " + quoted(stored.source()) +
         ", \"bos_token\": " + quoted_or_null(stored.bos_token()) +
         ", \"eos_token\": " + quoted_or_null(stored.eos_token()) + ", \"special_tokens\": [" +
         special + "], \"tokens\": {" + named +
         "}, \"tool_source\": " + quoted_or_null(stored.tool_source()) + "}";
}

}  // namespace

const char* thimble_version(void) { return thimble::version(); }

thimble_runner* thimble_load(const char* path, const thimble_load_options* options, char* error,
                             size_t error_size) {
  return thimble_load_signed(path, nullptr, options, error, error_size);
}

thimble_runner* thimble_load_signed(const char* path, const char* public_key,
                                    const thimble_load_options* options, char* error,
                                    size_t error_size) {
  return guarded<thimble_runner*>(nullptr, error, error_size, [&]() -> thimble_runner* {
    const auto load = to_load(options, public_key);
    const thimble::Status right = first_error({given({{"path", path}}), load.status()});
    if (report(right, error, error_size) != 0) return nullptr;
    return to_handle(thimble::Runner::load(path, *load), error, error_size);
  });
}

thimble_runner* thimble_load_bytes(const void* data, size_t size, const char* name,
                                   const thimble_load_options* options, char* error,
                                   size_t error_size) {
  return guarded<thimble_runner*>(nullptr, error, error_size, [&]() -> thimble_runner* {
    const auto load = to_load(options, nullptr);
    const thimble::Status right =
        first_error({given({{"data", data || size == 0}, {"name", name}}), load.status()});
    if (report(right, error, error_size) != 0) return nullptr;
    const auto* bytes = static_cast<const uint8_t*>(data);
    return to_handle(thimble::Runner::load(bytes, size, name, *load), error, error_size);
  });
}

int64_t thimble_adapters(const thimble_runner* runner) {
  return runner == nullptr ? 0 : static_cast<int64_t>(runner->runner->model().adapters().size());
}

const char* thimble_adapter_at(const thimble_runner* runner, int64_t index) {
  if (index < 0 || index >= thimble_adapters(runner)) return nullptr;
  return runner->runner->model().adapters()[static_cast<size_t>(index)].c_str();
}

const char* thimble_adapter(const thimble_runner* runner) {
  return runner == nullptr ? "" : runner->runner->adapter().c_str();
}

int thimble_use_draft(thimble_runner* runner, const char* draft, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}, {"draft", draft}});
    return right.ok() ? thimble::use_draft(*runner->runner, draft) : right;
  });
}

int thimble_use_adapter(thimble_runner* runner, const char* name, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}, {"name", name}});
    return right.ok() ? runner->runner->use_adapter(name) : right;
  });
}

int thimble_generate(thimble_runner* runner, const char* prompt, size_t prompt_size,
                     const thimble_options* options, thimble_text_callback on_text, void* context,
                     char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    if (options == nullptr) options = &thimble::kDefaultOptions;
    const thimble::Status right = first_error(
        {given({{"runner", runner}, {"prompt", prompt || prompt_size == 0}, {"on_text", on_text}}),
         check(*options)});
    if (!right.ok()) return right;
    runner->runner->clear_stats();
    const std::string_view text(prompt, prompt_size);
    const auto tokens = runner->runner->encode_prompt(text);
    if (!tokens.ok()) return tokens.status();
    runner->runner->model().program().recorder().note("prompt", std::string(text));
    return runner->runner->generate(*tokens, generate_options(*options, *runner),
                                    to_callback(on_text, context));
  });
}

void thimble_interrupt(thimble_runner* runner, int32_t interrupted) {
  if (runner != nullptr) runner->interrupted = interrupted != 0;
}

int thimble_constrain(thimble_runner* runner, int32_t kind, const char* text, size_t text_size,
                      char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}});
    if (!right.ok()) return right;
    thimble::Result<thimble::ConstraintText> chosen = thimble::to_constraint(kind, text, text_size);
    if (!chosen.ok()) return chosen.status();
    if (*chosen == runner->constraint_text) return {};
    auto compiled = runner->runner->compile(*chosen, runner->settings.wanted);
    if (!compiled.ok()) return compiled.status();
    std::unique_ptr<thimble::Constraint> constraint = std::move(*compiled);
    runner->notes.clear();
    if (constraint != nullptr) {
      for (const auto* list : {&constraint->notes(), &constraint->left_out()}) {
        for (const std::string& sentence : *list) runner->notes += sentence + "\n";
      }
    }
    runner->constraint = std::move(constraint);
    runner->constraint_text = std::move(*chosen);
    return {};
  });
}

const char* thimble_constraint_notes(const thimble_runner* runner) {
  return runner == nullptr ? "" : runner->notes.c_str();
}

const char* thimble_stats(thimble_runner* runner) {
  return guarded<const char*>("", nullptr, 0, [&]() -> const char* {
    if (runner == nullptr) return "";
    runner->stats = thimble::to_json(runner->runner->stats());
    return runner->stats.c_str();
  });
}

int64_t thimble_encode(const thimble_runner* runner, const char* text, size_t text_size,
                       int32_t* tokens, int64_t capacity) {
  return guarded<int64_t>(0, nullptr, 0, [&]() -> int64_t {
    if (runner == nullptr || (text == nullptr && text_size > 0)) return 0;
    return write_tokens(runner->runner->model().tokenizer().encode(
                            std::string_view(text, text_size), /*parse_special=*/false),
                        tokens, capacity);
  });
}

int64_t thimble_encode_pieces(const thimble_runner* runner, const thimble_piece* pieces,
                              int64_t count, int32_t* tokens, int64_t capacity, char* error,
                              size_t error_size) {
  return guarded<int64_t>(-1, error, error_size, [&]() -> int64_t {
    const thimble::Status right = given({{"runner", runner}});
    const auto text = right.ok() ? thimble::read_pieces(pieces, count) : right;
    if (report(text.status(), error, error_size) != 0) return -1;
    return write_tokens(runner->runner->model().tokenizer().encode(*text), tokens, capacity);
  });
}

const char* thimble_token_text(const thimble_runner* runner, int32_t token, size_t* size) {
  const std::string_view text =
      runner == nullptr ? "" : runner->runner->model().tokenizer().text_of(token);
  if (size != nullptr) *size = text.size();
  return text.data();
}

const char* thimble_chat_template(thimble_runner* runner) {
  return guarded<const char*>("", nullptr, 0, [&]() -> const char* {
    if (runner == nullptr) return "";
    const thimble::Model& model = runner->runner->model();
    const thimble::ChatTemplate* stored = model.stored_chat_template();
    if (stored == nullptr || stored->source().empty()) return "";
    if (runner->chat_template.empty()) {
      runner->chat_template = to_json(*stored, model.tokenizer());
    }
    return runner->chat_template.c_str();
  });
}

int64_t thimble_vocab_size(const thimble_runner* runner) {
  return runner == nullptr ? 0 : runner->runner->model().program().vocab_size();
}

int thimble_logits(thimble_runner* runner, const int32_t* tokens, int64_t count, int64_t first,
                   float* logits, char* error, size_t error_size) {
  const int64_t rows = std::max<int64_t>(count - std::max<int64_t>(first, 0), 0);
  return thimble_logit_rows(runner, tokens, count, first, rows, logits, error, error_size);
}

int thimble_logit_rows(thimble_runner* runner, const int32_t* tokens, int64_t count, int64_t first,
                       int64_t rows, float* logits, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = first_error(
        {given({{"runner", runner}, {"tokens", tokens || count == 0}, {"logits", logits}}),
         check<int64_t>("count", count, 0, INT32_MAX),
         check<int64_t>("first", first, 0, std::max<int64_t>(count - 1, 0)),
         check<int64_t>("rows", rows, 0, std::max<int64_t>(count - first, 0))});
    if (!right.ok()) return right;
    return runner->runner->logits({tokens, tokens + count}, static_cast<size_t>(first),
                                  static_cast<size_t>(rows), logits);
  });
}

int64_t thimble_length(const thimble_runner* runner) {
  return runner == nullptr ? 0 : static_cast<int64_t>(runner->runner->cached().size());
}

int thimble_truncate(thimble_runner* runner, int64_t length, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right =
        first_error({given({{"runner", runner}}), check<int64_t>("length", length, 0, INT32_MAX)});
    return right.ok() ? runner->runner->truncate(static_cast<size_t>(length)) : right;
  });
}

int thimble_save(thimble_runner* runner, const char* path, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}, {"path", path}});
    return right.ok() ? runner->runner->save(path) : right;
  });
}

int thimble_restore(thimble_runner* runner, const char* path, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}, {"path", path}});
    return right.ok() ? runner->runner->restore(path) : right;
  });
}

thimble_runner* thimble_fork(thimble_runner* runner, char* error, size_t error_size) {
  return guarded<thimble_runner*>(nullptr, error, error_size, [&]() -> thimble_runner* {
    if (report(given({{"runner", runner}}), error, error_size) != 0) return nullptr;
    return to_handle(runner->runner->fork(), error, error_size);
  });
}

int thimble_verify(thimble_runner* runner, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}});
    return right.ok() ? runner->runner->model().file().verify() : right;
  });
}

int thimble_start_recording(thimble_runner* runner, int64_t max_calls, int64_t max_bytes,
                            char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}});
    if (!right.ok()) return right;
    return thimble::start_recording(runner->runner->model().program().recorder(), max_calls,
                                    max_bytes);
  });
}

int thimble_stop_recording(thimble_runner* runner, const char* path, thimble_recording* recording,
                           char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right =
        given({{"runner", runner}, {"path", path}, {"recording", recording}});
    if (!right.ok()) return right;
    const thimble::Model& model = runner->runner->model();
    return thimble::stop_recording(model.program().recorder(), model.file(), path, recording);
  });
}

void thimble_free(thimble_runner* runner) { delete runner; }
