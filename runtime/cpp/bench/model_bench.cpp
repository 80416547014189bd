#include "bench/model_bench.h"

#include <algorithm>
#include <utility>

#include "bench/sequence_bench.h"
#include "bench/stopwatch.h"
#include "core/longer_context.h"
#include "engine/engine.h"
#include "model/recorder.h"
#include "platform/memory_use.h"

namespace thimble::bench {

Result<std::unique_ptr<ModelBench>> ModelBench::load(const std::string& path,
                                                     const LoadOptions& options,
                                                     const std::string& adapter,
                                                     const std::string& etdump) {
  LoadOptions quiet = options;
  quiet.record = false;  // the load is not measured
  Result<std::unique_ptr<Runner>> runner = Runner::load(path, quiet);
  if (!runner.ok()) return runner.status();
  if (!adapter.empty()) {
    const Status status = (*runner)->use_adapter(adapter);
    if (!status.ok()) return status;
  }
  SessionHandle* session = (*runner)->model().program().session();
  // With the rotary table of long texts any call is possible, at the same speed.
  const Status status = session == nullptr ? Status() : session->use_table(/*is_long=*/true);
  if (!status.ok()) return status;
  return std::unique_ptr<ModelBench>(new ModelBench(std::move(*runner), etdump));
}

std::string ModelBench::describe() {
  const SessionHandle* session = program_->session();
  std::string_view report = program_->named_data("thimble.report");
  report = report.substr(0, report.find_last_not_of(' ') + 1);
  return "{\"threads\": " + std::to_string(program_->threads()) + ", \"runs_with\": \"" +
         (session == nullptr ? "" : session->describe()) + "\"" +
         ", \"file_bytes\": " + std::to_string(runner_->model().file().size()) +
         ", \"max_seq_len\": " + std::to_string(program_->max_seq_len()) +
         ", \"max_context_len\": " + std::to_string(program_->max_context_len()) +
         ", \"report\": " + (report.empty() ? "null" : std::string(report)) + "}";
}

template <typename Measure>
Result<std::string> ModelBench::answer(Measure measure) {
  if (!etdump_.empty()) {
    const Status started = program_->recorder().start({});
    if (!started.ok()) return started;
  }
  const Result<double> seconds = measure();
  if (!etdump_.empty()) {
    const Result<Recording> recording = program_->recorder().stop(etdump_);
    if (seconds.ok() && !recording.ok()) return recording.status();
  }
  if (!seconds.ok()) return seconds.status();
  return to_json("seconds", *seconds);
}

Result<std::string> ModelBench::run(const Command& command) {
  const std::vector<int64_t>& numbers = command.numbers;
  const int64_t longest = program_->max_seq_len();
  if (command.is("prefill", 1)) return answer([&] { return run_tokens(0, numbers[0], longest); });
  if (command.is("fill", 1)) return answer([&] { return fill(numbers[0]); });
  if (command.is("decode", 2)) {
    return answer([&] {
      return at_depth(numbers[0], [&] { return run_tokens(numbers[0], numbers[1], 1); });
    });
  }
  if (command.is("batch", 3)) {
    return answer([&] {
      return at_depth(numbers[0], [&] { return run_batches(numbers[0], numbers[1], numbers[2]); });
    });
  }
  if (command.is("sequences", 3)) {
    return answer([&] { return run_sequences(numbers[0], numbers[1], numbers[2]); });
  }
  if (command.is("memory", 0)) {
    return to_json("peak_bytes", static_cast<double>(platform::peak_memory_bytes()));
  }
  return Status::error(
      "'" + command.name +
      "' is not a command: prefill N, decode D N, batch D R N, sequences S P N, fill D, or memory");
}

Status ModelBench::check_room(int64_t start_pos, int64_t count) const {
  if (start_pos + count <= program_->max_context_len()) return {};
  return Status::error(std::to_string(count) + " tokens at position " + std::to_string(start_pos) +
                       " do not fit into the context of " +
                       std::to_string(program_->max_context_len()) + ": " + export_longer());
}

Result<double> ModelBench::fill(int64_t depth) {
  SessionHandle* session = program_->session();
  if (session != nullptr && filled_ != 0) session->free(filled_);
  filled_ = 0;
  const Result<double> seconds = run_tokens(0, depth, program_->max_seq_len());
  if (session == nullptr || !seconds.ok()) return seconds;
  const Result<int32_t> copy = session->fork();
  if (!copy.ok()) return copy.status();
  filled_ = *copy;
  return seconds;
}

template <typename Measure>
Result<double> ModelBench::at_depth(int64_t depth, Measure measure) {
  SessionHandle* session = program_->session();
  if (session == nullptr || depth == 0 || filled_ == 0) return measure();
  Status status = session->use(filled_);
  if (!status.ok()) return status;
  const Result<int32_t> copy = session->fork();
  if (!copy.ok()) return copy.status();
  status = session->use(*copy);
  if (!status.ok()) return status;
  const Result<double> seconds = measure();
  session->free(*copy);
  return seconds;
}

Result<double> ModelBench::run_tokens(int64_t start_pos, int64_t count, int64_t rows) {
  const Status room = check_room(start_pos, count);
  if (!room.ok()) return room;
  const std::vector<int64_t> tokens = draw(count);
  const Stopwatch watch;
  for (int64_t done = 0; done < count; done += rows) {
    const auto begin = tokens.begin() + done;
    const std::vector<int64_t> call(begin, begin + std::min(rows, count - done));
    const auto logits = program_->run(call, start_pos + done);
    if (!logits.ok()) return logits.status();
  }
  return watch.seconds();
}

Result<double> ModelBench::run_batches(int64_t start_pos, int64_t rows, int64_t count) {
  const Status room = check_room(start_pos, rows);
  if (!room.ok()) return room;
  if (rows > program_->max_seq_len()) {
    return Status::error("a call takes at most " + std::to_string(program_->max_seq_len()) +
                         " tokens: export with a larger --max-seq-len");
  }
  const std::vector<int64_t> tokens = draw(rows);
  const Stopwatch watch;
  for (int64_t i = 0; i < count; ++i) {
    const auto logits = program_->run(tokens, start_pos);
    if (!logits.ok()) return logits.status();
  }
  return watch.seconds();
}

Result<double> ModelBench::run_sequences(int64_t sequences, int64_t prompt, int64_t count) {
  const Status room = check_room(0, prompt + count + 1);
  if (!room.ok()) return room;
  const int64_t most = std::min<int64_t>(kMostSequences, program_->max_seq_len());
  if (sequences < 1 || sequences > most || prompt < 1) {
    return Status::error("an engine runs 1 to " + std::to_string(most) +
                         " sequences of this model, with prompts of at least 1 token");
  }
  std::vector<std::vector<int32_t>> prompts;
  for (int64_t i = 0; i < sequences; ++i) {
    const std::vector<int64_t> tokens = draw(prompt);
    prompts.emplace_back(tokens.begin(), tokens.end());
  }
  const Result<double> seconds = time_sequences(*runner_, prompts, count);
  runner_->shared_model()->free_given_up();
  return seconds;
}

std::vector<int64_t> ModelBench::draw(int64_t count) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t& token : tokens) {
    random_ ^= random_ << 13;  // xorshift32 (Marsaglia, 2003)
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    token = random_ % static_cast<uint32_t>(program_->vocab_size());
  }
  return tokens;
}

}  // namespace thimble::bench
