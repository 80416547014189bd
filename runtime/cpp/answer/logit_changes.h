#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "answer/dry.h"
#include "core/status.h"

namespace thimble {

inline constexpr double kMostBias = 100.0;  ///< also below zero

/// What is changed of the model's logits before temperature, in this order.
struct LogitChangeOptions {
  /// What is added to the logits of tokens. -100 bans a token where any other may come.
  std::map<int32_t, float> bias;
  /// A logit above 0 is divided by it, one below multiplied, if the prompt or the answer has the
  /// token (Keskar et al., 2019, "CTRL", as transformers' RepetitionPenaltyLogitsProcessor does
  /// it). 1: none.
  float repetition_penalty = 1.0f;
  /// OpenAI's, over the answer's tokens alone: the first is taken from the logit of each token that
  /// it has, the second as often as it has it.
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  DryOptions dry;
};

/// Fails if a bias is of a token that the vocabulary does not have.
Status check_bias(const LogitChangeOptions& options, int64_t vocab_size);

/// The changes as they follow from the tokens so far.
class LogitChanges {
 public:
  LogitChanges(const LogitChangeOptions& options, const std::vector<int32_t>& prompt,
               BreaksRepetition breaks);

  /// Adds a token of the answer.
  void add(int32_t token);

  /// The `count` logits with the changes: in `changed`, or as they are if there is nothing to do.
  const float* apply(const float* logits, int32_t count, std::vector<float>* changed) const;

 private:
  LogitChangeOptions options_;
  /// How often the answer has each token so far; those of the prompt alone 0 times. Filled where
  /// there is a penalty.
  std::unordered_map<int32_t, int64_t> seen_;
  Dry dry_;
};

}  // namespace thimble
