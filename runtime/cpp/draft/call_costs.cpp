#include "draft/call_costs.h"

#include <algorithm>

namespace thimble {
namespace {

/// Of the last measurement in an average; and the most that a row is taken to cost.
constexpr double kNew = 0.1, kMostRow = 1.0;
/// What a row costs before it was measured, of a call with one.
constexpr double kFirstRow = 0.05;
constexpr size_t kMostDraftedCalls = 64;

}  // namespace

CallCosts::CallCosts(size_t sequences)
    : sequences_(static_cast<double>(sequences)),
      row_(kFirstRow / (1 + kFirstRow * (sequences_ - 1))) {}

bool CallCosts::needs_plain() const { return call_s_ <= 0 || drafted_calls_ >= kMostDraftedCalls; }

void CallCosts::observe(size_t drafted, double seconds) {
  if (drafted == 0) {
    call_s_ = call_s_ > 0 ? (1 - kNew) * call_s_ + kNew * seconds : seconds;
    drafted_calls_ = 0;
    return;
  }
  ++drafted_calls_;
  if (call_s_ <= 0) return;
  const double row = (seconds / call_s_ - 1) / static_cast<double>(drafted);
  row_ = (1 - kNew) * row_ + kNew * std::clamp(row, 0.0, kMostRow);
}

}  // namespace thimble
