/// DRY, XTC, typical, Mirostat and dynamic temperature against numbers of llama.cpp.
///
/// They are those of src/llama-sampler.cpp in the source package llama-cpp-python 0.3.36: what
/// llama_sampler_apply() leaves of kLogits with llama_sampler_init_typical(p, 0), _xtc(1, t, 0, 1),
/// _temp_ext(t, range, exponent), _mirostat(8, 1, tau, eta, 100) and _mirostat_v2(1, tau, eta), and
/// what it takes from logits with llama_sampler_init_dry_testing() after llama_sampler_accept().

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "answer/dry.h"
#include "answer/sampler.h"
#include "tests/cases.h"

namespace thimble {
namespace {

using test::expect;
using Probabilities = std::map<int32_t, double>;

const std::vector<float> kLogits = {0.0f, 2.0f, -1.0f, 1.0f, 0.5f, -3.0f, 1.5f, -0.5f};

Candidates all_of_them() {
  Candidates candidates;
  for (size_t i = 0; i < kLogits.size(); ++i) {
    candidates.push_back({std::exp(kLogits[i] - 2.0), static_cast<int32_t>(i)});
  }
  return candidates;
}

bool are(const Candidates& candidates, const Probabilities& expected, const char* what) {
  const double total = total_weight(candidates);
  bool same = candidates.size() == expected.size();
  for (const Candidate& one : candidates) {
    const auto found = expected.find(one.token);
    same = same && found != expected.end() && std::abs(one.weight / total - found->second) < 1e-6;
  }
  return expect(same, what);
}

bool typical_keeps_what_llama_cpp_keeps() {
  const auto kept = [](double typical_p) {
    Candidates candidates = all_of_them();
    keep_typical(&candidates, typical_p);
    return candidates;
  };
  return are(kept(0.2), {{6, 1.0}}, "typical_p 0.2") &&
         are(kept(0.5), {{1, 0.5064804}, {3, 0.1863237}, {6, 0.3071959}}, "typical_p 0.5") &&
         are(kept(0.9),
             {{0, 0.0580122}, {1, 0.4286555}, {3, 0.1576936}, {4, 0.0956460}, {6, 0.2599927}},
             "typical_p 0.9");
}

bool xtc_keeps_what_llama_cpp_keeps() {
  const auto kept = [](double threshold) {
    Candidates candidates = all_of_them();
    exclude_top(&candidates, threshold);
    return candidates;
  };
  const Probabilities all = {{0, 0.0547587}, {1, 0.4046150}, {2, 0.0201446}, {3, 0.1488495},
                             {4, 0.0902818}, {5, 0.0027263}, {6, 0.2454114}, {7, 0.0332128}};
  return are(kept(0.05), {{0, 0.4940230}, {2, 0.1817409}, {5, 0.0245960}, {7, 0.2996401}},
             "xtc_threshold 0.05") &&
         are(kept(0.2),
             {{0, 0.0919719},
              {2, 0.0338346},
              {3, 0.2500055},
              {4, 0.1516360},
              {5, 0.0045790},
              {6, 0.4121893},
              {7, 0.0557838}},
             "xtc_threshold 0.2") &&
         are(kept(0.4), all, "xtc_threshold 0.4, which one token alone reaches");
}

/// Whether the tokens of 100000 draws have these probabilities.
bool draws(SamplerOptions options, const Probabilities& expected, const char* what) {
  constexpr int kDraws = 100000;
  options.seed = 7;
  Sampler sampler(options);
  std::vector<int> counts(kLogits.size());
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(sampler.sample(kLogits.data(), 8))];
  }
  double chi_squared = 0.0;
  bool only = true;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto found = expected.find(static_cast<int32_t>(i));
    if (found == expected.end()) {
      only = only && counts[i] == 0;
      continue;
    }
    const double mean = kDraws * found->second;
    chi_squared += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  return expect(only && chi_squared < 30.0, what);  // at most 7 degrees of freedom: below 1e-4
}

bool dynamic_temperature_is_llama_cpps() {
  SamplerOptions options;
  options.temperature = 0.8f;
  options.dynatemp_range = 0.6f;
  options.dynatemp_exponent = 2.0f;
  bool passed = draws(options,
                      {{0, 0.0463783},
                       {1, 0.4372463},
                       {2, 0.0151046},
                       {3, 0.1424034},
                       {4, 0.0812676},
                       {5, 0.0016021},
                       {6, 0.2495303},
                       {7, 0.0264674}},
                      "temperature 0.8, dynatemp_range 0.6, dynatemp_exponent 2");
  options = {};
  options.dynatemp_range = 1.5f;
  options.dynatemp_exponent = 0.5f;
  return draws(options,
               {{0, 0.0733421},
                {1, 0.3388386},
                {2, 0.0341219},
                {3, 0.1576424},
                {4, 0.1075259},
                {5, 0.0073857},
                {6, 0.2311176},
                {7, 0.0500257}},
               "temperature 0, dynatemp_range 1.5, dynatemp_exponent 0.5") &&
         passed;
}

bool the_chain_has_llama_cpps_order() {
  SamplerOptions options;
  options.temperature = 0.7f;
  options.typical_p = 0.7f;
  bool passed = draws(options, {{1, 0.5783046}, {3, 0.1385913}, {6, 0.2831042}},
                      "temperature 0.7 behind typical_p 0.7");
  options.top_k = 7;
  options.typical_p = 0.95f;
  options.top_p = 0.97f;
  options.min_p = 0.1f;
  options.xtc_probability = 1.0f;
  options.xtc_threshold = 0.2f;
  options.dynatemp_range = 0.4f;
  options.dynatemp_exponent = 1.5f;
  return draws(options, {{0, 0.0994922}, {3, 0.2757639}, {4, 0.1656393}, {6, 0.4591046}},
               "all filters in a row") &&
         passed;
}

bool xtc_comes_with_its_probability() {
  SamplerOptions options;
  options.temperature = 1.0f;
  options.top_k = 3;  // 2.0, 1.5 and 1.0: without the first two, one is left
  options.xtc_probability = 0.25f;
  const double all = std::exp(2.0) + std::exp(1.5) + std::exp(1.0);
  return draws(options,
               {{1, 0.75 * std::exp(2.0) / all},
                {6, 0.75 * std::exp(1.5) / all},
                {3, 0.25 + 0.75 * std::exp(1.0) / all}},
               "XTC at a quarter of the tokens");
}

struct MirostatStep {
  size_t kept;
  int32_t token;  ///< that llama.cpp drew
  double mu;      ///< behind it
};

bool follows(const MirostatOptions& options, const std::vector<MirostatStep>& steps) {
  Mirostat mirostat(options);
  bool same = true;
  for (const MirostatStep& step : steps) {
    Candidates candidates = all_of_them();
    mirostat.keep(&candidates, 8);
    double weight = 0.0;
    for (const Candidate& one : candidates) weight += one.token == step.token ? one.weight : 0.0;
    mirostat.learn(weight / total_weight(candidates));
    same = same && candidates.size() == step.kept && std::abs(mirostat.mu() - step.mu) < 1e-5;
  }
  return expect(same, "what Mirostat keeps and learns in llama.cpp");
}

bool mirostat_follows_llama_cpp() {
  return follows({1, 0.8f, 0.3f}, {{1, 1, 1.840000},
                                   {1, 1, 2.080000},
                                   {2, 6, 1.898411},
                                   {2, 6, 1.716822},
                                   {1, 1, 1.956822},
                                   {2, 1, 1.991638},
                                   {2, 6, 1.810049},
                                   {1, 1, 2.050049}}) &&
         follows({2, 0.8f, 0.3f}, {{1, 1, 1.840000},
                                   {1, 1, 2.080000},
                                   {2, 6, 1.898411},
                                   {1, 1, 2.138411},
                                   {2, 6, 1.956822},
                                   {1, 1, 2.196822},
                                   {2, 1, 2.231638},
                                   {2, 6, 2.050049}}) &&
         follows({2, 1.5f, 0.1f}, {{3, 3, 2.907588},
                                   {3, 3, 2.815176},
                                   {3, 1, 2.867034},
                                   {3, 3, 2.774623},
                                   {3, 1, 2.826481}});
}

bool dry_takes_what_llama_cpp_takes() {
  struct Text {
    DryOptions options;
    std::vector<int32_t> tokens;
    std::set<int32_t> breakers;
    std::map<int32_t, float> penalties;
  };
  const std::vector<int32_t> text = {0, 1, 2, 2, 1, 2, 3, 0, 1, 2};
  const std::vector<Text> texts = {
      {{0.8f, 1.75f, 2, 64}, text, {}, {{2, 1.4f}, {3, 0.8f}}},
      {{0.8f, 1.75f, 2, 64}, text, {0}, {{2, 0.8f}, {3, 0.8f}}},
      {{0.8f, 1.75f, 2, 6}, text, {}, {{3, 0.8f}}},
      {{1.0f, 2.0f, 1, 64}, {4, 4, 4, 4, 4}, {}, {{4, 8.0f}}},
      {{1.0f, 2.0f, 1, 64}, {4, 6, 4, 6, 4, 6, 4}, {6}, {}},
      {{1.0f, 2.0f, 0, 64}, {5, 6, 7, 5}, {}, {{5, 1.0f}, {6, 2.0f}, {7, 1.0f}}},
      {{0.5f, 1.0f, 2, 64}, {0, 1, 2, 0, 1, 2, 0, 1}, {}, {{2, 0.5f}}},
      {{1.0f, 1.75f, 2, 64}, {1, 2, 3, 1, 2, 3, 1, 2}, {3}, {}},
  };
  bool same = true;
  for (const Text& one : texts) {
    Dry dry(one.options, [&](int32_t token) { return one.breakers.count(token) > 0; });
    for (const int32_t token : one.tokens) dry.add(token);
    const auto penalties = dry.penalties();
    same = same && penalties.size() == one.penalties.size();
    for (const auto& [token, penalty] : penalties) {
      const auto found = one.penalties.find(token);
      same = same && found != one.penalties.end() && std::abs(penalty - found->second) < 1e-6f;
    }
  }
  return expect(same, "llama.cpp's penalties for repetitions");
}

bool a_long_repetition_has_a_finite_penalty() {
  Dry dry({100.0f, 100.0f, 0, 4096}, {});
  for (int i = 0; i < 4096; ++i) dry.add(4);
  return expect(std::isfinite(dry.penalties().at(4)), "a penalty that is a number");
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  using namespace thimble;
  static const test::Case kCases[] = {
      {"typical_keeps_what_llama_cpp_keeps", typical_keeps_what_llama_cpp_keeps},
      {"xtc_keeps_what_llama_cpp_keeps", xtc_keeps_what_llama_cpp_keeps},
      {"dynamic_temperature_is_llama_cpps", dynamic_temperature_is_llama_cpps},
      {"the_chain_has_llama_cpps_order", the_chain_has_llama_cpps_order},
      {"xtc_comes_with_its_probability", xtc_comes_with_its_probability},
      {"mirostat_follows_llama_cpp", mirostat_follows_llama_cpp},
      {"dry_takes_what_llama_cpp_takes", dry_takes_what_llama_cpp_takes},
      {"a_long_repetition_has_a_finite_penalty", a_long_repetition_has_a_finite_penalty},
  };
  return test::run_cases(kCases, argc, argv);
}
