#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/command.h"
#include "core/status.h"
#include "model/loaded_method.h"
#include "model/session_handle.h"
#include "runner/runner.h"

namespace thimble::bench {

/// Measures a model that stays loaded. Each command returns how long it took, with random tokens
/// and, but for sequences, without sampling:
///   prefill N      N tokens from position 0 on, in as few calls as the program takes
///   decode D N     N calls of one token, at positions D, D + 1, ...
///   batch D R N    N calls of R tokens at position D: what a verified draft costs
///   sequences S P N  N tokens of each of S answers at once, in an Engine, behind prompts of P
///                    tokens: see time_sequences()
///   fill D         the cache up to position D, so that decoding at depth reads real numbers
///   memory         {"peak_bytes": ...} of the process so far
class ModelBench {
 public:
  /// Loads all that the runner loads: file, program, tokenizer. `adapter`: what it runs with;
  /// empty: none. `etdump`: the file to which each measured command writes its profile; empty:
  /// nothing is recorded.
  static Result<std::unique_ptr<ModelBench>> load(const std::string& path,
                                                  const LoadOptions& options,
                                                  const std::string& adapter,
                                                  const std::string& etdump);

  /// The first line: what the CPU delegate runs with, the file's size and that of its weights in
  /// bytes, lengths, and the report that the exporter left in it.
  std::string describe();

  /// Runs one command; returns the line that answers it.
  Result<std::string> run(const Command& command);

 private:
  ModelBench(std::unique_ptr<Runner> runner, std::string etdump)
      : runner_(std::move(runner)),
        program_(&runner_->model().program()),
        etdump_(std::move(etdump)) {}
  /// The seconds that `measure` returns; records a profile if requested.
  template <typename Measure>
  Result<std::string> answer(Measure measure);
  Status check_room(int64_t start_pos, int64_t count) const;
  Result<double> fill(int64_t depth);
  /// Runs `measure` at a depth. The CPU delegate's cache ends where the last call did, so there it
  /// works on a copy of the filled one.
  template <typename Measure>
  Result<double> at_depth(int64_t depth, Measure measure);
  /// Seconds of running `count` tokens from start_pos on, `rows` in a call.
  Result<double> run_tokens(int64_t start_pos, int64_t count, int64_t rows);
  Result<double> run_batches(int64_t start_pos, int64_t rows, int64_t count);
  Result<double> run_sequences(int64_t sequences, int64_t prompt, int64_t count);
  std::vector<int64_t> draw(int64_t count);

  std::unique_ptr<Runner> runner_;
  LoadedMethod* program_;  ///< the runner's
  const std::string etdump_;
  int32_t filled_ = 0;  ///< the session's cache that fill made; 0: none
  uint32_t random_ = 1;
};

}  // namespace thimble::bench
