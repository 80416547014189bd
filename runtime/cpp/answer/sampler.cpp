#include "answer/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

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

int32_t Sampler::sample(const float* logits, int32_t count, const TokenMask* allowed) {
  logits = changes_.apply(logits, count, &changed_);
  const int32_t best = likeliest(logits, count, allowed);
  if (best < 0 || options_.temperature == 0.0f || std::isinf(logits[best])) return best;

  candidates_.clear();
  for (int32_t token = 0; token < count; ++token) {
    if (!is_allowed(allowed, token)) continue;
    const double distance = static_cast<double>(logits[token]) - logits[best];
    const double weight = std::exp(distance / options_.temperature);
    if (weight > 0.0) candidates_.push_back({weight, token});  // false for NaN as well
  }
  keep_top_k();
  keep_top_p();
  keep_min_p();
  return draw();
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

void Sampler::keep_top_k() {
  const auto top_k = static_cast<size_t>(options_.top_k);
  if (top_k == 0 || top_k >= candidates_.size()) return;
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  std::partial_sort(candidates_.begin(), candidates_.begin() + options_.top_k, candidates_.end(),
                    likelier);
  candidates_.resize(top_k);
}

/// Takes the most likely ones from a heap until there are enough: a few of many, so no full sort.
void Sampler::keep_top_p() {
  if (options_.top_p >= 1.0f) return;
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.token > b.token;
  };
  std::make_heap(candidates_.begin(), candidates_.end(), less_likely);
  auto end = candidates_.end();
  double taken = 0.0;
  do {
    std::pop_heap(candidates_.begin(), end, less_likely);
    taken += (--end)->weight;
  } while (end != candidates_.begin() && taken < options_.top_p * total);
  candidates_.erase(candidates_.begin(), end);
}

void Sampler::keep_min_p() {
  const auto unlikely = [&](const Candidate& candidate) {
    return candidate.weight < options_.min_p;
  };
  candidates_.erase(std::remove_if(candidates_.begin(), candidates_.end(), unlikely),
                    candidates_.end());
}

int32_t Sampler::draw() {
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = uniform() * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0.0) return candidate.token;
  }
  return candidates_.back().token;  // only after rounding errors
}

}  // namespace thimble
