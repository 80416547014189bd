#include "hear/text_scores.h"

#include <algorithm>
#include <cmath>

namespace thimble {
namespace {

constexpr float kNegligible = 25;  // below the largest logit: all of a vocabulary add 1e-6 at most

}  // namespace

double log_sum(const float* logits, size_t count) {
  const float most = *std::max_element(logits, logits + count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    if (logits[i] > most - kNegligible) sum += std::exp(logits[i] - most);
  }
  return most + std::log(sum);
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

}  // namespace thimble
