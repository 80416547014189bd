#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// How likely guesses are right, learned from those before, and how many are worth verifying.
class DraftDepth {
 public:
  /// \param chance that a guess is right, before any was seen.
  /// \param weight of that, in guesses.
  DraftDepth(double chance, double weight) : right_(chance * weight), tried_(weight) {}

  /// The number of guesses, up to `most`, that makes a token cheapest.
  /// \param each cost of guessing and verifying each token; 1: a call of the model with one row.
  size_t choose(size_t most, double each) const;

  /// Compares a guess with the tokens of `text` from `at` on.
  void learn(const std::vector<int32_t>& guess, const std::vector<int32_t>& text, size_t at);

 private:
  double right_;
  double tried_;
};

}  // namespace thimble
