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

void Sequence::start(const Model& model, size_t slot, size_t cached) {
  const std::vector<int32_t>& tokens = request_.tokens;
  slot_ = slot;
  started_s_ = seconds();
  stats_.cached_tokens = static_cast<int64_t>(cached);
  stats_.prompt_tokens = static_cast<int64_t>(tokens.size() - cached);
  next_.assign(tokens.begin() + static_cast<std::ptrdiff_t>(cached), tokens.end());
  answer_.emplace(model, request_.options, tokens, request_.on_text, &stats_);
}

Status Sequence::advance(size_t count, const float* logits) {
  next_.erase(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(count));
  if (logits == nullptr) return {};
  if (answers_) stats_.decoded_tokens += static_cast<int64_t>(count);
  const Status status = answer_->choose(logits);
  if (!answers_) {
    stats_.ttft_s = seconds();
    stats_.prefill_s = stats_.ttft_s - started_s_;
    answers_ = true;
  } else {
    stats_.decode_s = seconds() - stats_.ttft_s;
  }
  if (status.ok()) next_ = answer_->chosen();
  return status;
}

void Sequence::end(const Status& status) {
  if (answer_.has_value() && status.ok()) answer_->finish();
  if (status.ok() && stats_.stop_reason == StopReason::kNone) {
    stats_.stop_reason = StopReason::kInterrupted;
  }
  request_.on_end(status, stats_);
}

}  // namespace thimble
