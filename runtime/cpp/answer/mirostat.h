#pragma once

#include <cstdint>

#include "answer/candidates.h"

namespace thimble {

/// Keeps the surprise of an answer's tokens near a target (Basu et al., 2021, "Mirostat").
struct MirostatOptions {
  int32_t version = 0;  ///< 0: not; 1: Mirostat; 2: Mirostat 2.0
  float tau = 5.0f;     ///< the target, in bits a token
  float eta = 0.1f;     ///< how fast the limit follows
};

/// The limit of surprise as it follows from the tokens so far, as llama.cpp computes it.
class Mirostat {
 public:
  explicit Mirostat(const MirostatOptions& options) : options_(options), mu_(2.0 * options.tau) {}

  /// Keeps those that the limit allows, of a vocabulary of `vocab_size` tokens.
  void keep(Candidates* candidates, int32_t vocab_size) const;

  /// Moves the limit: the token that was chosen had this share of what was kept.
  void learn(double probability);

  double mu() const { return mu_; }

 private:
  double top_k(Candidates* candidates, int32_t vocab_size) const;

  MirostatOptions options_;
  double mu_;  ///< the most surprise that a token may have, in bits
};

}  // namespace thimble
