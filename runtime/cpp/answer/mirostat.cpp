#include "answer/mirostat.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace thimble {
namespace {

constexpr size_t kMostEstimated = 100;  ///< tokens that the estimate of Zipf's exponent reads

}  // namespace

void Mirostat::keep(Candidates* candidates, int32_t vocab_size) const {
  if (options_.version == 1) {
    const double most = top_k(candidates, vocab_size);
    const auto size = static_cast<double>(candidates->size());
    // False for NaN as well: one token is kept.
    keep_top_k(candidates, most > 1.0 ? static_cast<size_t>(std::min(most, size)) : 1);
    return;
  }
  const Candidate likeliest =
      *std::min_element(candidates->begin(), candidates->end(), is_likelier);
  const double least = std::exp2(-mu_) * total_weight(*candidates);
  const auto is_surprising = [&](const Candidate& one) { return one.weight < least; };
  candidates->erase(std::remove_if(candidates->begin(), candidates->end(), is_surprising),
                    candidates->end());
  if (candidates->empty()) candidates->push_back(likeliest);
}

/// The number of tokens that has this surprise, if their probabilities follow Zipf's law with the
/// exponent of the most likely ones.
double Mirostat::top_k(Candidates* candidates, int32_t vocab_size) const {
  const size_t count = std::min(kMostEstimated, candidates->size());
  std::partial_sort(candidates->begin(), candidates->begin() + static_cast<int64_t>(count),
                    candidates->end(), is_likelier);
  double products = 0.0, squares = 0.0;
  for (size_t i = 0; i + 1 < count; ++i) {
    const double rank = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    products += rank * std::log((*candidates)[i].weight / (*candidates)[i + 1].weight);
    squares += rank * rank;
  }
  const double exponent = products / squares;
  const double above_one = exponent - 1.0;
  return std::pow(above_one * std::exp2(mu_) / (1.0 - std::pow(vocab_size, -above_one)),
                  1.0 / exponent);
}

void Mirostat::learn(double probability) {
  mu_ -= options_.eta * (-std::log2(probability) - options_.tau);
}

}  // namespace thimble
