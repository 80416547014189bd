/// The sampler against the probabilities it is to follow.

#include "answer/sampler.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/cases.h"

namespace thimble {
namespace {

using test::expect;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kLogits = {0.0f, 2.0f, -1.0f, 1.0f, 0.5f, -3.0f, 1.5f, -0.5f};

int32_t sample(Sampler& sampler, const std::vector<float>& logits) {
  return sampler.sample(logits.data(), static_cast<int32_t>(logits.size()));
}

/// How often each token comes in `draws` draws.
std::vector<int> count(const SamplerOptions& options, int draws) {
  Sampler sampler(options);
  std::vector<int> counts(kLogits.size());
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sample(sampler, kLogits))];
  return counts;
}

/// Pearson's chi-squared of the counts against softmax(logits / temperature) over `kept` tokens.
double chi_squared(const std::vector<int>& counts, double temperature,
                   const std::vector<bool>& kept) {
  double total = 0.0, draws = 0.0, sum = 0.0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (kept[i]) total += std::exp(kLogits[i] / temperature);
    draws += counts[i];
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = kept[i] ? draws * std::exp(kLogits[i] / temperature) / total : 0.0;
    if (expected == 0.0 && counts[i] > 0) return std::numeric_limits<double>::infinity();
    if (expected > 0.0) sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

bool follows(const SamplerOptions& options, const std::vector<bool>& kept) {
  // Seven degrees of freedom at most: beyond 30 with a probability below 1e-4, and the seed is
  // fixed.
  const double distance = chi_squared(count(options, 100000), options.temperature, kept);
  return expect(distance < 30.0, "counts that follow the probabilities");
}

SamplerOptions with_temperature(float temperature) {
  SamplerOptions options;
  options.temperature = temperature;
  options.seed = 7;
  return options;
}

const std::vector<bool> kAll(8, true);

bool greedy_takes_the_likeliest() {
  Sampler sampler({});
  return expect(sample(sampler, kLogits) == 1, "the largest logit's token") &&
         expect(sample(sampler, {3.0f, 5.0f, 5.0f}) == 1, "the first of equals");
}

bool nan_is_never_chosen() {
  Sampler greedy({});
  Sampler random(with_temperature(1.0f));
  bool passed = expect(sample(greedy, {kNan, 1.0f, kNan}) == 1, "the only number") &&
                expect(sample(greedy, {kNan, kNan}) == -1, "-1 without a number") &&
                expect(sample(random, {kNan, kNan}) == -1, "-1 without a number");
  for (int i = 0; i < 100; ++i) {
    passed = passed && expect(sample(random, {1.0f, kNan, 1.0f}) != 1, "a number, not NaN");
  }
  return passed;
}

bool infinite_logits_are_allowed() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Sampler sampler(with_temperature(1.0f));
  return expect(sample(sampler, {0.0f, kInfinity, 1.0f}) == 1, "the infinite one") &&
         expect(sample(sampler, {-kInfinity, 0.0f}) == 1, "never minus infinity");
}

bool temperature_shapes_the_distribution() {
  bool passed = true;
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    passed = follows(with_temperature(temperature), kAll) && passed;
  }
  return passed;
}

bool top_k_keeps_the_likeliest() {
  SamplerOptions options = with_temperature(1.0f);
  options.top_k = 3;
  return follows(options, {false, true, false, true, false, false, true, false});
}

bool top_p_keeps_the_fewest() {
  // Probabilities at temperature 1, sorted: 0.385 0.233 0.142 0.086 0.052 ...
  SamplerOptions options = with_temperature(1.0f);
  options.top_p = 0.6f;
  bool passed = follows(options, {false, true, false, false, false, false, true, false});
  options.top_p = 0.0f;
  return expect(count(options, 10)[1] == 10, "top_p 0 to be greedy") && passed;
}

bool min_p_keeps_by_ratio() {
  // Relative to the likeliest: 1 (2.0), 0.61 (1.5), 0.37 (1.0), 0.22 (0.5), 0.14 (0.0) ...
  SamplerOptions options = with_temperature(1.0f);
  options.min_p = 0.2f;
  return follows(options, {false, true, false, true, true, false, true, false});
}

bool filters_apply_in_order() {
  // top_k leaves 2.0 and 1.5, of which top_p 0.6 then keeps the first, at 62%.
  SamplerOptions options = with_temperature(1.0f);
  options.top_k = 2;
  options.top_p = 0.6f;
  return expect(count(options, 50)[1] == 50, "only the likeliest");
}

bool a_seed_repeats() {
  // From SplitMix64 and the softmax written in Python: every machine must draw the same.
  const int32_t expected[] = {6, 1, 1, 1, 0, 6, 1, 6, 1, 3, 1, 3};
  SamplerOptions options = with_temperature(1.0f);
  options.seed = 42;
  Sampler sampler(options), twin(options);
  options.seed = 43;
  Sampler other(options);
  int different = 0;
  bool passed = true;
  for (const int32_t token : expected) {
    const int32_t drawn = sample(sampler, kLogits);
    if (drawn != token) std::fprintf(stderr, "drew %d\n", drawn);
    passed = expect(drawn == token, "the tokens of seed 42") && passed;
    passed = expect(sample(twin, kLogits) == drawn, "twins to agree") && passed;
    different += sample(other, kLogits) != drawn ? 1 : 0;
  }
  return expect(different > 0, "another seed to differ") && passed;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  using namespace thimble;
  static const test::Case kCases[] = {
      {"greedy_takes_the_likeliest", greedy_takes_the_likeliest},
      {"nan_is_never_chosen", nan_is_never_chosen},
      {"infinite_logits_are_allowed", infinite_logits_are_allowed},
      {"temperature_shapes_the_distribution", temperature_shapes_the_distribution},
      {"top_k_keeps_the_likeliest", top_k_keeps_the_likeliest},
      {"top_p_keeps_the_fewest", top_p_keeps_the_fewest},
      {"min_p_keeps_by_ratio", min_p_keeps_by_ratio},
      {"filters_apply_in_order", filters_apply_in_order},
      {"a_seed_repeats", a_seed_repeats},
  };
  return test::run_cases(kCases, argc, argv);
}
