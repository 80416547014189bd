#pragma once

#include <string_view>
#include <vector>

namespace thimble {

/// How sure a model is of a window's text.
struct TextScores {
  double temperature = 0;        ///< at which it was written
  double avg_logprob = 0;        ///< of its tokens, and of the one that ends it; or of all states
  double compression_ratio = 0;  ///< high if it repeats itself
  double no_speech_prob = 0;     ///< that the window is silence
};

/// The logarithm of the sum of the exponents of logits.
double log_sum(const float* logits, size_t count);

/// A text without the spaces around it.
std::string_view stripped(std::string_view text);

}  // namespace thimble
