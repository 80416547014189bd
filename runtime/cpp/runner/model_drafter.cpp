#include "runner/model_drafter.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace thimble {
namespace {

/// Most calls between two trials of guesses that are not worth it.
constexpr size_t kMostPause = 128;

Status check_tokens(const Model& draft, const Model& target) {
  const int64_t count = target.program().vocab_size();
  bool same = draft.program().vocab_size() == count;
  for (int32_t token = 0; same && token < static_cast<int32_t>(count); ++token) {
    same = draft.tokenizer().token_bytes(token) == target.tokenizer().token_bytes(token) &&
           draft.ends_answer(token) == target.ends_answer(token);
  }
  if (same) return {};
  return Status::error(draft.file().path() + " does not have the tokens of " +
                       target.file().path() +
                       ", so it cannot draft for it: give a smaller model of the same family");
}

}  // namespace

Result<std::unique_ptr<ModelDrafter>> ModelDrafter::load(const std::string& path,
                                                         const Model& target,
                                                         const LoadOptions& options) {
  Result<std::unique_ptr<Runner>> runner = Runner::load(path, options);
  if (!runner.ok()) return runner.status();
  const Status status = check_tokens((*runner)->model(), target);
  if (!status.ok()) return status;
  return std::unique_ptr<ModelDrafter>(new ModelDrafter(std::move(*runner)));
}

Result<std::vector<int32_t>> ModelDrafter::propose(const std::vector<int32_t>& tokens, size_t most,
                                                   const CallCosts& costs, const Sampler& sampler) {
  depth_.learn(std::exchange(guess_, {}), tokens, guessed_at_);
  if (pause_ > 0) {
    --pause_;
    return std::vector<int32_t>();
  }
  const double step = costs.call_s() > 0 && call_s_ > 0 ? call_s_ / costs.call_s() : 0.2;
  const int64_t room = runner_->model().program().room_behind(tokens.size());
  most = std::min(most, static_cast<size_t>(std::max<int64_t>(room, 0)));
  size_t depth = depth_.choose(most, costs.row() + step);
  if (depth == 0 && most > 0) {  // a trial now and then shows when it is worth it again
    last_pause_ = std::min(2 * last_pause_, kMostPause);
    pause_ = last_pause_;
    depth = 1;
  } else {
    last_pause_ = 1;
  }
  guessed_at_ = tokens.size();
  std::vector<int32_t> all = tokens;
  Sampler ahead = sampler.ahead();
  for (size_t i = 0; i < depth; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Result<const float*> logits = runner_->logits_after(all);
    if (!logits.ok()) return logits.status();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    if (i > 0) call_s_ = call_s_ > 0 ? 0.9 * call_s_ + 0.1 * taken.count() : taken.count();
    const auto width = static_cast<int32_t>(runner_->model().program().vocab_size());
    const int32_t token = ahead.sample(*logits, width);
    if (token < 0) break;
    ahead.add(token);
    guess_.push_back(token);
    all.push_back(token);
  }
  return guess_;
}

}  // namespace thimble
