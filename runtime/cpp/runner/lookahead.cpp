#include "runner/lookahead.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

/// Of the last measurement in an average; and the most that a row is taken to cost.
constexpr double kNew = 0.1, kMostRow = 1.0;

}  // namespace

void Lookahead::start(std::vector<int32_t> draft, const float* logits, size_t width) {
  draft_ = std::move(draft);
  used_ = 0;
  logits_ = logits;
  width_ = width;
}

const float* Lookahead::follow(const std::vector<int32_t>& chosen) {
  if (chosen.empty() || chosen.size() > left() ||
      !std::equal(chosen.begin(), chosen.end(),
                  draft_.begin() + static_cast<std::ptrdiff_t>(used_))) {
    return nullptr;
  }
  used_ += chosen.size();
  return logits_ + used_ * width_;
}

void CallCosts::observe(size_t rows, double seconds) {
  if (rows == 1) {
    costs_.call_s = costs_.call_s > 0 ? (1 - kNew) * costs_.call_s + kNew * seconds : seconds;
  } else if (costs_.call_s > 0) {
    const double row = (seconds / costs_.call_s - 1) / static_cast<double>(rows - 1);
    costs_.row = (1 - kNew) * costs_.row + kNew * std::clamp(row, 0.0, kMostRow);
  }
}

}  // namespace thimble
