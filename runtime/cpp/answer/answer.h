#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "answer/constrained_answer.h"
#include "answer/generate_options.h"
#include "answer/stats.h"
#include "answer/text_output.h"
#include "model/model.h"

namespace thimble {

/// An answer in the making: chooses its tokens, passes on its text and knows when it ends.
class Answer {
 public:
  /// All must outlive the answer. `prompt`: the tokens before it, all of the context.
  Answer(const Model& model, const GenerateOptions& options, const std::vector<int32_t>& prompt,
         const TextCallback& on_text, Stats* stats);

  /// Chooses the next token by the logits, and then those that a constraint leaves no choice for.
  Status choose(const float* logits);

  /// What the last choice adds to the context; if the answer ended, not its last token.
  const std::vector<int32_t>& chosen() const { return chosen_; }
  /// How its next token will be chosen.
  const Sampler& sampler() const { return sampler_; }
  bool ended() const { return stats_.stop_reason != StopReason::kNone; }
  /// Passes on what is still held back of the text.
  void finish();

 private:
  Result<int32_t> sample(const float* logits);
  /// Adds a token that was chosen, or forced, behind `logits`.
  void add(int32_t token, const float* logits);
  void add_forced(const float* logits);
  void find_forced();
  void end(StopReason reason) { stats_.stop_reason = reason; }

  const Model& model_;
  const GenerateOptions& options_;
  Stats& stats_;
  Sampler sampler_;
  const bool at_start_;  ///< its tokens begin a text, and do not go on behind a prompt
  TextOutput text_;
  std::optional<ConstrainedAnswer> constrained_;
  std::deque<int32_t> forced_;  ///< that come next
  std::vector<int32_t> chosen_;
  int64_t length_;  ///< of the context, with the tokens chosen
  int64_t generated_ = 0;
};

}  // namespace thimble
