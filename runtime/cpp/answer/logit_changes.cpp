#include "answer/logit_changes.h"

#include <string>
#include <utility>

namespace thimble {

Status check_bias(const LogitChangeOptions& options, int64_t vocab_size) {
  for (const auto& [token, value] : options.bias) {
    if (token >= 0 && token < vocab_size) continue;
    return Status::error("logit_bias has the token " + std::to_string(token) +
                         ", but the model's vocabulary ends at " + std::to_string(vocab_size - 1));
  }
  return {};
}

LogitChanges::LogitChanges(const LogitChangeOptions& options, const std::vector<int32_t>& prompt,
                           BreaksRepetition breaks)
    : options_(options), dry_(options.dry, std::move(breaks)) {
  for (const int32_t token : prompt) dry_.add(token);
  if (options_.repetition_penalty == 1.0f) return;
  for (const int32_t token : prompt) seen_.emplace(token, 0);
}

void LogitChanges::add(int32_t token) {
  dry_.add(token);
  if (options_.repetition_penalty == 1.0f && options_.presence_penalty == 0.0f &&
      options_.frequency_penalty == 0.0f) {
    return;
  }
  ++seen_[token];
}

const float* LogitChanges::apply(const float* logits, int32_t count,
                                 std::vector<float>* changed) const {
  if (options_.bias.empty() && seen_.empty() && !dry_.is_on()) return logits;
  changed->assign(logits, logits + count);
  for (const auto& [token, value] : options_.bias) (*changed)[static_cast<size_t>(token)] += value;
  for (const auto& [token, times] : seen_) {
    float& logit = (*changed)[static_cast<size_t>(token)];
    logit =
        logit > 0.0f ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    if (times == 0) continue;
    const double penalty =
        options_.presence_penalty +
        static_cast<double>(options_.frequency_penalty) * static_cast<double>(times);
    logit = static_cast<float>(logit - penalty);
  }
  for (const auto& [token, penalty] : dry_.penalties()) {
    (*changed)[static_cast<size_t>(token)] -= penalty;
  }
  return changed->data();
}

}  // namespace thimble
