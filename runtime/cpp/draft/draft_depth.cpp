#include "draft/draft_depth.h"

namespace thimble {
namespace {

/// The guesses before lose this much of their weight with each new one: some 50 count.
constexpr double kKept = 0.98;

}  // namespace

size_t DraftDepth::choose(size_t most, double each) const {
  const double chance = right_ / tried_;
  size_t best = 0;
  double best_speed = 1, tokens = 1, reached = 1;
  for (size_t depth = 1; depth <= most; ++depth) {
    reached *= chance;
    tokens += reached;
    const double speed = tokens / (1 + each * static_cast<double>(depth));
    if (speed > best_speed) best = depth, best_speed = speed;
  }
  return best;
}

void DraftDepth::learn(const std::vector<int32_t>& guess, const std::vector<int32_t>& text,
                       size_t at) {
  for (size_t i = 0; i < guess.size() && at + i < text.size(); ++i) {
    const bool right = guess[i] == text[at + i];
    right_ = kKept * right_ + (right ? 1 : 0);
    tried_ = kKept * tried_ + 1;
    if (!right) return;
  }
}

}  // namespace thimble
