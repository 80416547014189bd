#include "answer/candidates.h"

#include <algorithm>
#include <cmath>

namespace thimble {
namespace {

template <typename Condition>
void remove(Candidates* candidates, const Condition& condition) {
  candidates->erase(std::remove_if(candidates->begin(), candidates->end(), condition),
                    candidates->end());
}

/// Keeps the first ones of an order until they have the weight `wanted`. They come from a heap: a
/// few of many, so no full sort.
template <typename Before>
void keep_first(Candidates* candidates, double least_sum, const Before& before) {
  const auto behind = [&](const Candidate& a, const Candidate& b) { return before(b, a); };
  std::make_heap(candidates->begin(), candidates->end(), behind);
  auto end = candidates->end();
  double taken = 0.0;
  do {
    std::pop_heap(candidates->begin(), end, behind);
    taken += (--end)->weight;
  } while (end != candidates->begin() && taken < least_sum);
  candidates->erase(candidates->begin(), end);
}

}  // namespace

double total_weight(const Candidates& candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

bool is_likelier(const Candidate& a, const Candidate& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

void keep_top_k(Candidates* candidates, size_t count) {
  if (count >= candidates->size()) return;
  std::partial_sort(candidates->begin(), candidates->begin() + static_cast<int64_t>(count),
                    candidates->end(), is_likelier);
  candidates->resize(count);
}

void keep_top_p(Candidates* candidates, double top_p) {
  keep_first(candidates, top_p * total_weight(*candidates), is_likelier);
}

void keep_min_p(Candidates* candidates, double min_p) {
  double most = 0.0;
  for (const Candidate& candidate : *candidates) most = std::max(most, candidate.weight);
  remove(candidates, [&](const Candidate& one) { return one.weight < min_p * most; });
}

void keep_typical(Candidates* candidates, double typical_p) {
  const double total = total_weight(*candidates);
  const double expected = entropy(*candidates);
  const auto distance = [&](const Candidate& one) {
    return std::abs(-std::log(one.weight / total) - expected);
  };
  keep_first(candidates, typical_p * total, [&](const Candidate& a, const Candidate& b) {
    const double of_a = distance(a), of_b = distance(b);
    return of_a != of_b ? of_a < of_b : is_likelier(a, b);
  });
}

void exclude_top(Candidates* candidates, double threshold) {
  const double enough = threshold * total_weight(*candidates);
  const Candidate* last = nullptr;
  for (const Candidate& candidate : *candidates) {
    if (candidate.weight < enough) continue;
    if (last == nullptr || is_likelier(*last, candidate)) last = &candidate;
  }
  if (last == nullptr) return;
  const Candidate kept = *last;
  remove(candidates, [&](const Candidate& one) { return is_likelier(one, kept); });
}

double entropy(const Candidates& candidates) {
  const double total = total_weight(candidates);
  double sum = 0.0;
  for (const Candidate& candidate : candidates) {
    const double probability = candidate.weight / total;
    if (probability > 0.0) sum -= probability * std::log(probability);
  }
  return sum;
}

}  // namespace thimble
