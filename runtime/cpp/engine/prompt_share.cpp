#include "engine/prompt_share.h"

#include <algorithm>

namespace thimble {
namespace {

/// Rows before one was measured.
constexpr size_t kFirstRows = 4;
/// Of the last measurement in an average, and how often as much as that it may be: a call that was
/// held up by other work says little.
constexpr double kNew = 0.25, kMostChange = 2;

}  // namespace

size_t PromptShare::rows(double answers_s) const {
  if (answers_s <= 0) return most_;
  if (row_s_ <= 0) return std::min(kFirstRows, most_);
  const double fitting = std::min(answers_s / row_s_, static_cast<double>(most_));
  return std::max(static_cast<size_t>(fitting + 0.5), size_t{1});
}

void PromptShare::observe(size_t rows, double answers_s, double seconds) {
  if (rows == 0 || answers_s <= 0) return;
  // Rows that seem to cost nothing are within what calls differ by.
  const double least = answers_s / static_cast<double>(most_);
  const double row_s = std::max((seconds - answers_s) / static_cast<double>(rows), least);
  if (row_s_ <= 0) row_s_ = row_s;
  const double believed = std::clamp(row_s, row_s_ / kMostChange, row_s_ * kMostChange);
  row_s_ += kNew * (believed - row_s_);
}

}  // namespace thimble
