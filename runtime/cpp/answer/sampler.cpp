#include "answer/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace thimble {
namespace {

bool is_allowed(const TokenMask* allowed, int32_t token) {
  return allowed == nullptr || (*allowed)[static_cast<size_t>(token)];
}

/// The most likely token, the first if several are equal; -1 if no logit is a number.
int32_t likeliest(const float* logits, int32_t count, const TokenMask* allowed) {
  int32_t best = -1;
  for (int32_t token = 0; token < count; ++token) {
    if (std::isnan(logits[token]) || !is_allowed(allowed, token)) continue;
    if (best < 0 || logits[token] > logits[best]) best = token;
  }
  return best;
}

}  // namespace

bool Sampler::is_greedy() const {
  return options_.temperature == 0.0f &&
         (options_.dynatemp_range == 0.0f || options_.mirostat.version != 0);
}

bool Sampler::is_temperature_last() const {
  return options_.mirostat.version == 0 &&
         (options_.typical_p < 1.0f || options_.xtc_probability > 0.0f ||
          options_.dynatemp_range > 0.0f);
}

int32_t Sampler::sample(const float* logits, int32_t count, const TokenMask* allowed) {
  logits = changes_.apply(logits, count, &changed_);
  const int32_t best = likeliest(logits, count, allowed);
  if (best < 0 || is_greedy() || std::isinf(logits[best])) return best;

  const double temperature = is_temperature_last() ? 1.0 : options_.temperature;
  candidates_.clear();
  for (int32_t token = 0; token < count; ++token) {
    if (!is_allowed(allowed, token)) continue;
    const double distance = static_cast<double>(logits[token]) - logits[best];
    const double weight = std::exp(distance / temperature);
    if (weight > 0.0) candidates_.push_back({weight, token});  // false for NaN as well
  }
  filter(logits, count);
  return draw();
}

void Sampler::filter(const float* logits, int32_t count) {
  if (options_.mirostat.version != 0) return mirostat_.keep(&candidates_, count);
  if (options_.top_k > 0) keep_top_k(&candidates_, static_cast<size_t>(options_.top_k));
  if (options_.typical_p < 1.0f) keep_typical(&candidates_, options_.typical_p);
  if (options_.top_p < 1.0f) keep_top_p(&candidates_, options_.top_p);
  if (options_.min_p > 0.0f) keep_min_p(&candidates_, options_.min_p);
  if (options_.xtc_probability > 0.0f && uniform() < options_.xtc_probability) {
    exclude_top(&candidates_, options_.xtc_threshold);
  }
  if (is_temperature_last()) divide(logits, last_temperature());
}

/// That of "dynatemp", as llama.cpp computes it: the lowest where one token is certain, the highest
/// where all are equally likely.
double Sampler::last_temperature() const {
  const double range = options_.dynatemp_range;
  if (range == 0.0 || candidates_.size() < 2) return options_.temperature;
  const double low = std::max(0.0, options_.temperature - range);
  const double high = options_.temperature + range;
  const double share = entropy(candidates_) / std::log(static_cast<double>(candidates_.size()));
  return low + (high - low) * std::pow(share, double{options_.dynatemp_exponent});
}

/// Weighs what is kept by the logits divided by a temperature; 0 leaves the most likely token.
void Sampler::divide(const float* logits, double temperature) {
  if (temperature == 0.0) return keep_top_k(&candidates_, 1);
  double most = -std::numeric_limits<double>::infinity();
  for (const Candidate& one : candidates_) most = std::max<double>(most, logits[one.token]);
  for (Candidate& one : candidates_) {
    one.weight = std::exp((logits[one.token] - most) / temperature);
  }
}

/// SplitMix64 (Steele, Lea and Flood, 2014), as a number in [0, 1).
double Sampler::uniform() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  bits ^= bits >> 31;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

int32_t Sampler::draw() {
  const double total = total_weight(candidates_);
  double left = uniform() * total;
  const Candidate* chosen = &candidates_.back();  // only after rounding errors
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left >= 0.0) continue;
    chosen = &candidate;
    break;
  }
  if (options_.mirostat.version != 0) mirostat_.learn(chosen->weight / total);
  return chosen->token;
}

}  // namespace thimble
