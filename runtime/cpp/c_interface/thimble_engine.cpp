#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
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
using thimble::first_error;
using thimble::given;
using thimble::guarded;
using thimble::report;

namespace {

thimble::Status check_request(const thimble_engine* engine, const thimble_request* request,
                              bool has_on_text, bool has_on_end) {
  const thimble::Status right = given(
      {{"engine", engine}, {"request", request}, {"on_text", has_on_text}, {"on_end", has_on_end}});
  if (!right.ok()) return right;
  return first_error({given({{"the request's tokens", request->tokens || request->count == 0}}),
                      check(request->options),
                      check<int64_t>("count", request->count, 0, INT32_MAX)});
}

}  // namespace

thimble_engine* thimble_engine_open(thimble_runner* runner, const thimble_engine_options* options,
                                    char* error, size_t error_size) {
  return guarded<thimble_engine*>(nullptr, error, error_size, [&]() -> thimble_engine* {
    const thimble_engine_options chosen = options != nullptr ? *options : thimble_engine_options{};
    const thimble::Status right =
        first_error({given({{"runner", runner}}),
                     check("sequences", chosen.sequences, 0, thimble::kMostSequences),
                     check("queue", chosen.queue, 0, INT32_MAX),
                     check("prompt_rows", chosen.prompt_rows, 0, INT32_MAX)});
    if (report(right, error, error_size) != 0) return nullptr;
    thimble::EngineOptions engine_options;
    if (chosen.sequences > 0) engine_options.sequences = chosen.sequences;
    if (chosen.queue > 0) engine_options.queue = chosen.queue;
    if (chosen.prompt_rows > 0) engine_options.prompt_rows = chosen.prompt_rows;
    auto engine = thimble::Engine::create(*runner->runner, engine_options);
    if (report(engine.status(), error, error_size) != 0) return nullptr;
    return new thimble_engine(std::move(*engine), runner->runner->adapter());
  });
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
  return guarded<int64_t>(0, error, error_size, [&]() -> int64_t {
    const thimble::Status right =
        check_request(engine, request, on_text != nullptr, on_end != nullptr);
    if (report(right, error, error_size) != 0) return 0;
    thimble::Request submitted;
    submitted.tokens.assign(request->tokens, request->tokens + request->count);
    submitted.options = thimble::to_generate(request->options,
                                             settings != nullptr ? *settings : thimble_settings());
    auto constraint = thimble::to_constraint(request->constraint_kind, request->constraint,
                                             request->constraint_size);
    if (report(constraint.status(), error, error_size) != 0) return 0;
    submitted.constraint = std::move(*constraint);
    if (settings != nullptr) submitted.wanted = settings->wanted;
    submitted.adapter = adapter != nullptr ? adapter : engine->adapter;
    submitted.on_text = thimble::to_callback(on_text, context);
    submitted.on_end = [=](const thimble::Status& status, const thimble::Stats& stats) {
      on_end(status.ok() ? nullptr : status.message().c_str(), thimble::to_json(stats).c_str(),
             context);
    };
    const thimble::Result<int64_t> id = engine->engine->submit(std::move(submitted));
    return report(id.status(), error, error_size) == 0 ? *id : 0;
  });
}

void thimble_engine_cancel(thimble_engine* engine, int64_t request) {
  if (engine != nullptr) engine->engine->cancel(request);
}

int64_t thimble_engine_step(thimble_engine* engine) {
  return guarded<int64_t>(-1, nullptr, 0, [&]() -> int64_t {
    return engine == nullptr ? 0 : static_cast<int64_t>(engine->engine->step());
  });
}

void thimble_engine_free(thimble_engine* engine) { delete engine; }

int64_t thimble_encode_prompt(const thimble_runner* runner, const char* prompt, size_t prompt_size,
                              int32_t* tokens, int64_t capacity, char* error, size_t error_size) {
  return guarded<int64_t>(-1, error, error_size, [&]() -> int64_t {
    const thimble::Status right =
        given({{"runner", runner}, {"prompt", prompt || prompt_size == 0}});
    if (report(right, error, error_size) != 0) return -1;
    const auto encoded = runner->runner->encode_prompt(std::string_view(prompt, prompt_size));
    if (report(encoded.status(), error, error_size) != 0) return -1;
    return thimble::write_tokens(*encoded, tokens, capacity);
  });
}
