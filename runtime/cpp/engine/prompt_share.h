#pragma once

#include <cstddef>

namespace thimble {

/// The rows of prompts that a call has beside answers: as many as take about as long as the answers
/// alone, so that a long prompt makes a call about twice as long, whatever the processor.
class PromptShare {
 public:
  /// \param most rows of prompts in a call, at least one.
  explicit PromptShare(size_t most) : most_(most) {}

  /// \param answers_s seconds of a call of the answers alone; 0: there are none, or it is unknown.
  size_t rows(double answers_s) const;
  /// Records a call with so many rows beside those of answers, and what these take alone.
  void observe(size_t rows, double answers_s, double seconds);

 private:
  size_t most_;
  double row_s_ = 0;  ///< of a row of a prompt; 0: none was measured
};

}  // namespace thimble
