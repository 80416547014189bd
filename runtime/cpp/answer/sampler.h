#pragma once

#include <cstdint>
#include <vector>

#include "answer/logit_changes.h"
#include "constraint/token_mask.h"

namespace thimble {

/// How the next token is chosen. The steps apply in this order, each to the result of the one
/// before: changes, temperature, top_k, top_p, min_p.
struct SamplerOptions {
  float temperature = 0.0f;  ///< 0: always the most likely token; else logits are divided by it
  int32_t top_k = 0;         ///< keep the k most likely; 0: all
  float top_p = 1.0f;  ///< nucleus sampling: keep the fewest whose probabilities add up to top_p
  float min_p = 0.0f;  ///< keep those at least min_p times as likely as the most likely
  uint64_t seed = 0;   ///< the same seed and logits give the same tokens on every machine
  LogitChangeOptions changes;
};

/// Samples tokens by their logits.
class Sampler {
 public:
  /// \param prompt the tokens before the answer.
  explicit Sampler(const SamplerOptions& options, const std::vector<int32_t>& prompt = {})
      : options_(options), changes_(options.changes, prompt), state_(options.seed) {}

  /// Another that will choose as this one: it draws the same numbers, behind the same tokens.
  Sampler ahead() const {
    Sampler other(options_);
    other.changes_ = changes_;
    other.state_ = state_;
    return other;
  }

  /// Adds a token to the answer, whether sample() chose it or not.
  void add(int32_t token) { changes_.add(token); }

  /// The next token, one of `allowed` unless that is null; -1 if none of the `count` logits that it
  /// may be chosen by is a number.
  int32_t sample(const float* logits, int32_t count, const TokenMask* allowed = nullptr);

 private:
  struct Candidate {
    double weight;  ///< probability up to a common factor: 1 for the most likely
    int32_t token;
  };

  double uniform();
  void keep_top_k();
  void keep_top_p();
  void keep_min_p();
  int32_t draw();

  SamplerOptions options_;
  LogitChanges changes_;
  std::vector<float> changed_;  ///< the logits with their changes
  uint64_t state_;
  std::vector<Candidate> candidates_;
};

}  // namespace thimble
