#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "c_interface/shared.h"
#include "c_interface/thimble.h"
#include "engine/engine.h"

struct thimble_engine {
  thimble_engine(std::unique_ptr<thimble::Engine> opened, std::string runners_adapter)
      : engine(std::move(opened)), adapter(std::move(runners_adapter)) {}

  std::unique_ptr<thimble::Engine> engine;
  const std::string adapter;  ///< the runner's
};

using thimble::check;
using thimble::report;

thimble_engine* thimble_engine_open(thimble_runner* runner, const thimble_engine_options* options,
                                    char* error, size_t error_size) {
  const thimble::Status right =
      thimble::first_error({check("sequences", options->sequences, 0, thimble::kMostSequences),
                            check("queue", options->queue, 0, INT32_MAX),
                            check("prompt_rows", options->prompt_rows, 0, INT32_MAX)});
  if (report(right, error, error_size) != 0) return nullptr;
  thimble::EngineOptions wanted;
  if (options->sequences > 0) wanted.sequences = options->sequences;
  if (options->queue > 0) wanted.queue = options->queue;
  if (options->prompt_rows > 0) wanted.prompt_rows = options->prompt_rows;
  auto engine = thimble::Engine::create(*runner->runner, wanted);
  if (report(engine.status(), error, error_size) != 0) return nullptr;
  return new thimble_engine(std::move(*engine), runner->runner->adapter());
}

int64_t thimble_engine_submit(thimble_engine* engine, const thimble_request* request,
                              thimble_text_callback on_text, thimble_end_callback on_end,
                              void* context, char* error, size_t error_size) {
  return thimble_engine_submit_with(engine, request, /*settings=*/nullptr, /*adapter=*/nullptr,
                                    on_text, on_end, context, error, error_size);
}

int64_t thimble_engine_submit_with(thimble_engine* engine, const thimble_request* request,
                                   const thimble_settings* settings, const char* adapter,
                                   thimble_text_callback on_text, thimble_end_callback on_end,
                                   void* context, char* error, size_t error_size) {
  using Kind = thimble::ConstraintText::Kind;
  const thimble::Status right =
      thimble::first_error({check(request->options),
                            check<int32_t>("constraint_kind", request->constraint_kind,
                                           THIMBLE_ANY_TEXT, THIMBLE_GRAMMAR),
                            check<int64_t>("count", request->count, 0, INT32_MAX)});
  if (report(right, error, error_size) != 0) return 0;
  thimble::Request wanted;
  wanted.tokens.assign(request->tokens, request->tokens + request->count);
  wanted.options =
      thimble::to_generate(request->options, settings != nullptr ? *settings : thimble_settings());
  wanted.constraint.kind = static_cast<Kind>(request->constraint_kind);
  if (wanted.constraint.kind != Kind::kNone) {
    wanted.constraint.text.assign(request->constraint, request->constraint_size);
  }
  wanted.adapter = adapter != nullptr ? adapter : engine->adapter;
  wanted.on_text = thimble::to_callback(on_text, context);
  wanted.on_end = [=](const thimble::Status& status, const thimble::Stats& stats) {
    on_end(status.ok() ? nullptr : status.message().c_str(), thimble::to_json(stats).c_str(),
           context);
  };
  const thimble::Result<int64_t> id = engine->engine->submit(std::move(wanted));
  return report(id.status(), error, error_size) == 0 ? *id : 0;
}

void thimble_engine_cancel(thimble_engine* engine, int64_t request) {
  engine->engine->cancel(request);
}

int64_t thimble_engine_step(thimble_engine* engine) {
  return static_cast<int64_t>(engine->engine->step());
}

void thimble_engine_free(thimble_engine* engine) { delete engine; }

int64_t thimble_encode_prompt(const thimble_runner* runner, const char* prompt, size_t prompt_size,
                              int32_t* tokens, int64_t capacity, char* error, size_t error_size) {
  const auto encoded = runner->runner->encode_prompt({prompt, prompt_size});
  if (report(encoded.status(), error, error_size) != 0) return -1;
  const auto count = static_cast<int64_t>(encoded->size());
  std::copy_n(encoded->begin(), std::min(count, capacity), tokens);
  return count;
}
