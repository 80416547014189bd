#include "runner/thimble.h"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "runner/runner.h"

struct thimble_runner {
  std::unique_ptr<thimble::Runner> runner;
  std::string stats;
};

namespace {

int report(const thimble::Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  std::snprintf(error, error_size, "%s", status.message().c_str());
  return 1;
}

}  // namespace

thimble_runner* thimble_load(const char* path, int32_t threads, char* error, size_t error_size) {
  auto runner = thimble::Runner::load(path, threads, /*profile=*/nullptr);
  if (report(runner.status(), error, error_size) != 0) return nullptr;
  return new thimble_runner{std::move(*runner), {}};
}

int thimble_generate(thimble_runner* runner, const char* prompt, size_t prompt_size,
                     const thimble_options* options, thimble_text_callback on_text, void* context,
                     char* error, size_t error_size) {
  thimble::GenerateOptions generate;
  generate.max_new_tokens = options->max_new_tokens;
  generate.sampler = {options->temperature, options->top_k, options->top_p, options->min_p,
                      options->seed};
  runner->runner->reset();
  const auto tokens = runner->runner->encode_prompt(std::string_view(prompt, prompt_size));
  if (!tokens.ok()) return report(tokens.status(), error, error_size);
  const auto forward_text = [&](std::string_view text) {
    return on_text(text.data(), text.size(), context) != 0;
  };
  return report(runner->runner->generate(*tokens, generate, forward_text), error, error_size);
}

const char* thimble_stats(thimble_runner* runner) {
  runner->stats = thimble::to_json(runner->runner->stats());
  return runner->stats.c_str();
}

int thimble_verify(thimble_runner* runner, char* error, size_t error_size) {
  return report(runner->runner->file().verify(), error, error_size);
}

void thimble_free(thimble_runner* runner) { delete runner; }
