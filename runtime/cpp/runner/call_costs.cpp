#include "runner/call_costs.h"

#include <algorithm>

namespace thimble {
namespace {

/// Of the last measurement in an average; and the most that a row is taken to cost.
constexpr double kNew = 0.1, kMostRow = 1.0;

}  // namespace

void CallCosts::observe(size_t rows, double seconds) {
  if (rows == 1) {
    call_s_ = call_s_ > 0 ? (1 - kNew) * call_s_ + kNew * seconds : seconds;
  } else if (call_s_ > 0) {
    const double row = (seconds / call_s_ - 1) / static_cast<double>(rows - 1);
    row_ = (1 - kNew) * row_ + kNew * std::clamp(row, 0.0, kMostRow);
  }
}

}  // namespace thimble
