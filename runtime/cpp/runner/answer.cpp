#include "runner/answer.h"

#include <algorithm>
#include <string>

namespace thimble {

namespace {

/// Whether an answer to a prompt without text begins the text.
bool begins_text(const Model& model, const std::vector<int32_t>& prompt) {
  return std::all_of(prompt.begin(), prompt.end(), [&model](int32_t token) {
    return model.tokenizer().token_bytes(token).empty();
  });
}

}  // namespace

Answer::Answer(const Model& model, const GenerateOptions& options,
               const std::vector<int32_t>& prompt, const Runner::TextCallback& on_text,
               Stats* stats)
    : model_(model),
      options_(options),
      on_text_(on_text),
      stats_(*stats),
      sampler_(options.sampler),
      at_start_(begins_text(model, prompt)),
      stream_(model.tokenizer(), at_start_),
      length_(static_cast<int64_t>(prompt.size())) {
  stats_.stop_reason = StopReason::kNone;
  if (options.constraint != nullptr) {
    const auto vocab_size = static_cast<size_t>(model.program().vocab_size());
    constrained_.emplace(*options.constraint, model.tokenizer(), vocab_size, at_start_);
  }
}

Status Answer::choose(const float* logits) {
  chosen_.clear();
  if (generated_ == 0 && constrained_) {
    if (constrained_->ended()) end(StopReason::kComplete);
    add_forced();
  }
  if (ended() || !chosen_.empty()) return {};
  const Result<int32_t> token = sample(logits);
  if (!token.ok()) return token.status();
  add(*token);
  add_forced();
  return {};
}

Result<int32_t> Answer::sample(const float* logits) {
  const TokenMask* mask = nullptr;
  if (constrained_) {
    const Result<const TokenMask*> allowed = constrained_->allowed();
    if (!allowed.ok()) return allowed.status();
    mask = *allowed;
  }
  const auto count = static_cast<int32_t>(model_.program().vocab_size());
  const int32_t token = sampler_.sample(logits, count, mask);
  if (token >= 0) return token;
  return Status::error("the model's logits at position " + std::to_string(length_ - 1) +
                       " are not numbers: check the file with --verify");
}

void Answer::add_forced() {
  if (!constrained_ || ended()) return;
  for (const int32_t token : constrained_->forced()) {
    if (ended()) return;
    add(token);
    ++stats_.forced_tokens;
  }
}

void Answer::add(int32_t token) {
  ++generated_;
  ++stats_.generated_tokens;
  if (constrained_) constrained_->add(token);
  if (model_.ends_answer(token)) return end(StopReason::kEos);
  const std::string text = stream_.push(token);
  const bool interrupted = options_.interrupted != nullptr && options_.interrupted->load();
  if (interrupted || (!text.empty() && !on_text_(text))) return end(StopReason::kInterrupted);
  if (constrained_ && constrained_->ended()) return end(StopReason::kComplete);
  if (generated_ == options_.max_new_tokens) return end(StopReason::kLength);
  if (length_ == model_.program().max_context_len()) return end(StopReason::kContextFull);
  chosen_.push_back(token);
  ++length_;
}

void Answer::finish() {
  stats_.incomplete = constrained_ && !constrained_->complete();
  const std::string rest = stream_.finish();
  if (!rest.empty()) on_text_(rest);
}

}  // namespace thimble
