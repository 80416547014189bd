#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "answer/candidates.h"
#include "answer/logit_changes.h"
#include "answer/mirostat.h"
#include "constraint/token_mask.h"

namespace thimble {

/// How the next token is chosen. The steps apply in this order, each to the result of the one
/// before: changes, temperature, top_k, typical_p, top_p, min_p, XTC. Temperature comes last, as
/// in llama.cpp, where typical_p, XTC or dynamic temperature is asked for. Mirostat takes the
/// place of all behind temperature.
struct SamplerOptions {
  float temperature = 0.0f;  ///< 0: always the most likely token; else logits are divided by it
  int32_t top_k = 0;         ///< keep the k most likely; 0: all
  float typical_p = 1.0f;    ///< keep those of typical surprise whose probabilities add up to it
  float top_p = 1.0f;  ///< nucleus sampling: keep the fewest whose probabilities add up to top_p
  float min_p = 0.0f;  ///< keep those at least min_p times as likely as the most likely
  float xtc_probability = 0.0f;  ///< of XTC at each token; 0: never
  float xtc_threshold = 0.1f;    ///< all but the least likely of those that reach it are removed
  float dynatemp_range = 0.0f;   ///< temperature moves by so much with the entropy; 0: not
  float dynatemp_exponent = 1.0f;
  MirostatOptions mirostat;
  uint64_t seed = 0;  ///< the same seed and logits give the same tokens on every machine
  LogitChangeOptions changes;
};

/// Samples tokens by their logits.
class Sampler {
 public:
  /// \param prompt the tokens before the answer.
  explicit Sampler(const SamplerOptions& options, const std::vector<int32_t>& prompt = {},
                   BreaksRepetition breaks = {})
      : options_(options),
        changes_(options.changes, prompt, std::move(breaks)),
        mirostat_(options.mirostat),
        state_(options.seed) {}

  /// Another that will choose as this one: it draws the same numbers, behind the same tokens.
  Sampler ahead() const {
    Sampler other(options_);
    other.changes_ = changes_;
    other.mirostat_ = mirostat_;
    other.state_ = state_;
    return other;
  }

  /// Adds a token to the answer, whether sample() chose it or not.
  void add(int32_t token) { changes_.add(token); }

  /// Whether the most likely token is always taken.
  bool is_greedy() const;

  /// The next token, one of `allowed` unless that is null; -1 if none of the `count` logits that it
  /// may be chosen by is a number.
  int32_t sample(const float* logits, int32_t count, const TokenMask* allowed = nullptr);

 private:
  bool is_temperature_last() const;
  void filter(const float* logits, int32_t count);
  double last_temperature() const;
  void divide(const float* logits, double temperature);
  double uniform();
  int32_t draw();

  SamplerOptions options_;
  LogitChanges changes_;
  Mirostat mirostat_;
  std::vector<float> changed_;  ///< the logits with their changes
  uint64_t state_;
  Candidates candidates_;
};

}  // namespace thimble
