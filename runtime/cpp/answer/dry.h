#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

namespace thimble {

/// "Don't repeat yourself": a penalty for tokens that would continue a repetition, as llama.cpp
/// computes it: multiplier * base ^ (length - allowed_length), where the text's last `length`
/// tokens were before, and the token came behind them.
struct DryOptions {
  float multiplier = 0.0f;     ///< 0: none
  float base = 1.75f;          ///< 1 at least
  int32_t allowed_length = 2;  ///< of a repetition that is not punished
  int32_t last_n = 64;         ///< tokens of the text that are searched; 0: none
};

/// Whether no repetition goes on across a token.
using BreaksRepetition = std::function<bool(int32_t token)>;

/// The penalties as they follow from the tokens so far.
class Dry {
 public:
  /// `breaks` may be empty: no token does.
  Dry(const DryOptions& options, BreaksRepetition breaks);

  bool is_on() const { return options_.multiplier != 0.0f && options_.last_n > 0; }

  /// Adds a token of the prompt or the answer.
  void add(int32_t token);

  /// What is to be taken from the logits of tokens.
  std::unordered_map<int32_t, float> penalties() const;

 private:
  size_t longest() const;

  DryOptions options_;
  BreaksRepetition breaks_;
  std::deque<int32_t> text_;  ///< its end, the last token first
};

}  // namespace thimble
