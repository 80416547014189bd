#include "bench/sequence_bench.h"

#include <memory>
#include <string>
#include <utility>

#include "bench/stopwatch.h"
#include "engine/engine.h"

namespace thimble::bench {
namespace {

/// Answers of so many tokens, at work or waiting; `status` gets what goes wrong.
Status submit(Engine& engine, const Model& model, const std::vector<std::vector<int32_t>>& prompts,
              int64_t tokens, Status* status) {
  Request request;
  request.options.max_new_tokens = tokens;
  for (int32_t token = 0; token < model.program().vocab_size(); ++token) {
    if (model.ends_answer(token)) request.options.sampler.changes.bias[token] = -kMostBias;
  }
  request.on_text = [](std::string_view) { return true; };
  request.on_end = [status, tokens](const Status& ended, const Stats& stats) {
    if (!status->ok()) return;
    *status = ended;
    if (ended.ok() && stats.generated_tokens != tokens) {
      *status = Status::error("an answer ended after " + std::to_string(stats.generated_tokens) +
                              " of " + std::to_string(tokens) + " tokens");
    }
  };
  for (const std::vector<int32_t>& prompt : prompts) {
    request.tokens = prompt;
    const Result<int64_t> id = engine.submit(request);
    if (!id.ok()) return id.status();
  }
  return {};
}

}  // namespace

Result<double> time_sequences(const Runner& runner,
                              const std::vector<std::vector<int32_t>>& prompts, int64_t count) {
  EngineOptions options;
  options.sequences = static_cast<int32_t>(prompts.size());
  Result<std::unique_ptr<Engine>> engine = Engine::create(runner, options);
  if (!engine.ok()) return engine.status();
  // The prompts are read first, and stay in the caches.
  Status ended;
  Status status = submit(**engine, runner.model(), prompts, 1, &ended);
  while (status.ok() && (*engine)->step() > 0) {
  }
  if (status.ok()) status = submit(**engine, runner.model(), prompts, count + 1, &ended);
  if (!status.ok()) return status;
  (*engine)->step();
  const Stopwatch watch;
  while ((*engine)->step() > 0) {
  }
  const double seconds = watch.seconds();
  if (!ended.ok()) return ended;
  return seconds;
}

}  // namespace thimble::bench
