#include "answer/answer.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace thimble {

namespace {

/// Whether an answer to a prompt without text begins the text.
bool begins_text(const Model& model, const std::vector<int32_t>& prompt) {
  return std::all_of(prompt.begin(), prompt.end(), [&model](int32_t token) {
    return model.tokenizer().token_bytes(token).empty();
  });
}

/// llama.cpp's "sequence breakers" of DRY, as they are by default there.
bool breaks_repetition(const Tokenizer& tokenizer, int32_t token) {
  return tokenizer.text_of(token).find_first_of("\n:\"*") != std::string_view::npos;
}

}  // namespace

Answer::Answer(const Model& model, const GenerateOptions& options,
               const std::vector<int32_t>& prompt, const TextCallback& on_text, Stats* stats)
    : model_(model),
      options_(options),
      stats_(*stats),
      sampler_(options.sampler, prompt,
               [&model](int32_t token) { return breaks_repetition(model.tokenizer(), token); }),
      at_start_(begins_text(model, prompt)),
      text_(model.tokenizer(), options.output, on_text, at_start_, prompt, options.constraint),
      length_(static_cast<int64_t>(prompt.size())) {
  stats_.stop_reason = StopReason::kNone;
  stats_.end_token = -1;
  stats_.end_text.clear();
  stats_.left_out.clear();
  if (options.constraint != nullptr) {
    stats_.left_out = options.constraint->left_out();
    const auto vocab_size = static_cast<size_t>(model.program().vocab_size());
    constrained_.emplace(*options.constraint, model.tokenizer(), vocab_size, at_start_);
  }
}

Status Answer::choose(const float* logits) {
  chosen_.clear();
  if (generated_ == 0 && constrained_) {
    if (constrained_->ended()) end(StopReason::kComplete);
    find_forced();
  }
  if (ended()) return {};
  if (!forced_.empty()) {
    add_forced(logits);
    return {};
  }
  const Result<int32_t> token = sample(logits);
  if (!token.ok()) return token.status();
  add(*token, logits);
  find_forced();
  if (!options_.output.on_token) add_forced(logits);
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

void Answer::find_forced() {
  if (!constrained_ || ended()) return;
  const std::vector<int32_t> forced = constrained_->forced();
  forced_.assign(forced.begin(), forced.end());
}

/// Adds all at once; one at a time where the logits before each are needed.
void Answer::add_forced(const float* logits) {
  while (!forced_.empty() && !ended()) {
    const int32_t token = forced_.front();
    forced_.pop_front();
    add(token, logits);
    ++stats_.forced_tokens;
    if (options_.output.on_token) return;
  }
}

void Answer::add(int32_t token, const float* logits) {
  ++generated_;
  ++stats_.generated_tokens;
  sampler_.add(token);
  if (constrained_) constrained_->add(token);
  if (model_.ends_answer(token)) {
    stats_.end_token = token;
    stats_.end_text = model_.tokenizer().text_of(token);
    return end(StopReason::kEos);
  }
  std::optional<ChosenLogprob> logprob;
  if (options_.output.on_token) {
    const auto count = static_cast<int32_t>(model_.program().vocab_size());
    logprob = logprob_of(token, logits, count, options_.output.top_logprobs, model_.tokenizer());
  }
  const bool interrupted = options_.interrupted != nullptr && options_.interrupted->load();
  const bool goes_on = text_.add(token, std::move(logprob));
  if (text_.stopped()) return end(StopReason::kStop);
  if (interrupted || !goes_on) return end(StopReason::kInterrupted);
  if (constrained_ && constrained_->ended()) return end(StopReason::kComplete);
  if (generated_ == options_.max_new_tokens) return end(StopReason::kLength);
  if (length_ == model_.program().max_context_len()) return end(StopReason::kContextFull);
  chosen_.push_back(token);
  ++length_;
}

void Answer::finish() {
  stats_.incomplete = constrained_ && !constrained_->complete();
  const bool stopped = text_.stopped();
  text_.finish();
  if (text_.stopped() && !stopped) end(StopReason::kStop);
  stats_.reasons = text_.reasons() && !text_.stopped();
}

}  // namespace thimble
