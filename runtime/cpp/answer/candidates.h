#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// A token that may come next.
struct Candidate {
  double weight;  ///< its probability up to a factor that all have
  int32_t token;
};

/// One at least; each filter keeps one at least.
using Candidates = std::vector<Candidate>;

double total_weight(const Candidates& candidates);

/// The most likely first; the lower token of two that are equally likely.
bool is_likelier(const Candidate& a, const Candidate& b);

/// Keeps the `count` most likely ones, in that order if there were more.
void keep_top_k(Candidates* candidates, size_t count);

/// Keeps the fewest of the most likely ones that have the share `top_p` of the probability.
void keep_top_p(Candidates* candidates, double top_p);

/// Keeps those that are at least `min_p` times as likely as the most likely one.
void keep_min_p(Candidates* candidates, double min_p);

/// Locally typical sampling (Meister et al., 2023): keeps those whose surprise is nearest to the
/// entropy, the fewest that have the share `typical_p` of the probability.
void keep_typical(Candidates* candidates, double typical_p);

/// XTC, "exclude top choices": of those whose probability is at least `threshold`, all but the
/// least likely one are removed.
void exclude_top(Candidates* candidates, double threshold);

/// In nats.
double entropy(const Candidates& candidates);

}  // namespace thimble
