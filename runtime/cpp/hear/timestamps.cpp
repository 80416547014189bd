#include "hear/timestamps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thimble {

void Timestamps::forbid(const std::vector<int32_t>& text, std::vector<float>* logits) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto begin = logits->begin(), times = begin + first_;
  *(times - 1) = kNever;  // that there are no times
  const size_t size = text.size();
  const bool after_time = size > 0 && is_time(text[size - 1]);
  const bool after_pair = after_time && (size < 2 || is_time(text[size - 2]));
  if (after_pair) std::fill(times, logits->end(), kNever);
  if (after_time && !after_pair) std::fill(begin, begin + end_, kNever);
  const auto last =
      std::find_if(text.rbegin(), text.rend(), [this](int32_t token) { return is_time(token); });
  if (last != text.rend()) {
    const bool may_repeat = after_time && !after_pair;
    std::fill(times, times + static_cast<std::ptrdiff_t>(step(*last)) + (may_repeat ? 0 : 1),
              kNever);
  }
  if (text.empty()) {
    std::fill(begin, times, kNever);
    const auto count = static_cast<size_t>(logits->end() - times);
    std::fill(times + static_cast<std::ptrdiff_t>(std::min(count, most_first_ + 1)), logits->end(),
              kNever);
  }
  const float most = *std::max_element(times, logits->end());
  if (most == kNever) return;
  double sum = 0;
  for (auto time = times; time != logits->end(); ++time) sum += std::exp(*time - most);
  if (most + std::log(sum) > *std::max_element(begin, times)) std::fill(begin, times, kNever);
}

std::vector<TimedPart> Timestamps::cut(const std::vector<int32_t>& text, size_t steps,
                                       size_t* used) const {
  const size_t size = text.size();
  std::vector<TimedPart> parts;
  size_t first = 0;
  for (size_t i = 1; i < size; ++i) {
    if (!is_time(text[i - 1]) || !is_time(text[i])) continue;
    parts.push_back({first, i, is_time(text[first]) ? step(text[first]) : 0, step(text[i - 1])});
    first = i;
  }
  *used = steps;
  const bool ends_with_time = size > 1 && is_time(text[size - 1]) && !is_time(text[size - 2]);
  if (!parts.empty() && !ends_with_time) {
    *used = std::clamp<size_t>(parts.back().end, 1, steps);
  } else if (first < size) {
    const auto last =
        std::find_if(text.rbegin(), text.rend(), [this](int32_t token) { return is_time(token); });
    const size_t end = last == text.rend() || step(*last) == 0 ? steps : step(*last);
    const bool begins_with_time = !parts.empty() && is_time(text[first]);
    parts.push_back({first, size, begins_with_time ? step(text[first]) : 0, end});
  }
  return parts;
}

}  // namespace thimble
