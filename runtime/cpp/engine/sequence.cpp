#include "engine/sequence.h"

#include <utility>

namespace thimble {

Sequence::Sequence(int64_t id, Request request, const Stats& stats,
                   std::unique_ptr<Constraint> constraint)
    : id_(id), request_(std::move(request)), stats_(stats), constraint_(std::move(constraint)) {
  request_.options.constraint = constraint_.get();
  request_.options.interrupted = &cancelled_;
  stats_.adapter = request_.adapter;
}

void Sequence::start(const Model& model, const std::vector<int32_t>& text, size_t slot,
                     size_t cached, std::unique_ptr<Drafter> drafter) {
  const std::vector<int32_t>& tokens = request_.tokens;
  slot_ = slot;
  started_s_ = seconds();
  stats_.cached_tokens = static_cast<int64_t>(cached);
  stats_.prompt_tokens = static_cast<int64_t>(tokens.size() - cached);
  next_.assign(tokens.begin() + static_cast<std::ptrdiff_t>(cached), tokens.end());
  vocab_size_ = static_cast<size_t>(model.program().vocab_size());
  drafter_ = std::move(drafter);
  answer_.emplace(model, request_.options, text, request_.on_text, &stats_);
}

Result<std::vector<int32_t>> Sequence::draft(const std::vector<int32_t>& read, size_t most,
                                             const CallCosts& costs) {
  if (drafter_ == nullptr || !answers_ || most == 0) return std::vector<int32_t>();
  std::vector<int32_t> all = read;
  all.insert(all.end(), next_.begin(), next_.end());
  return drafter_->propose(all, most, costs, answer_->sampler());
}

Result<size_t> Sequence::advance(size_t count, std::vector<int32_t> draft, const float* logits) {
  next_.erase(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(count));
  if (logits == nullptr) return size_t{0};
  const size_t chosen = answer_->chosen().size();  // the rest of `count` was read before
  size_t drafted = draft.size();
  VerifiedDraft ahead;
  ahead.start(std::move(draft), logits, vocab_size_);
  Status status = answer_->choose(logits);
  while (status.ok() && !ended()) {
    const float* known = ahead.follow(answer_->chosen());
    if (known == nullptr) break;
    status = answer_->choose(known);
  }
  const size_t accepted = drafted - ahead.left();
  if (ended()) drafted -= ahead.left();
  stats_.drafted_tokens += static_cast<int64_t>(drafted);
  stats_.accepted_tokens += static_cast<int64_t>(accepted);
  if (answers_) {
    stats_.decoded_tokens += static_cast<int64_t>(chosen + accepted);
    stats_.decode_s = seconds() - stats_.ttft_s;
  } else {
    stats_.ttft_s = seconds();
    stats_.prefill_s = stats_.ttft_s - started_s_;
    answers_ = true;
  }
  if (!status.ok()) return status;
  next_ = answer_->chosen();
  return ahead.left();
}

void Sequence::read_again(const std::vector<int32_t>& tokens) {
  next_.insert(next_.begin(), tokens.begin(), tokens.end());
}

void Sequence::read_anew(const std::vector<int32_t>& tokens) {
  stats_.recomputed_tokens += static_cast<int64_t>(tokens.size());
  read_again(tokens);
}

void Sequence::end(const Status& status) {
  if (answer_.has_value() && status.ok()) answer_->finish();
  if (status.ok() && stats_.stop_reason == StopReason::kNone) {
    stats_.stop_reason = StopReason::kInterrupted;
  }
  request_.on_end(status, stats_);
}

}  // namespace thimble
