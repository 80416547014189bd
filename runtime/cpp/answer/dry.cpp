#include "answer/dry.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace thimble {
namespace {

/// For each place, how many tokens from there on are those that the text begins with; the first has
/// none (the Z function, in linear time).
std::vector<size_t> common_prefixes(const std::deque<int32_t>& text) {
  std::vector<size_t> lengths(text.size());
  size_t start = 0, end = 0;  // of the match that reaches furthest
  for (size_t i = 1; i < text.size(); ++i) {
    size_t length = i < end ? std::min(end - i, lengths[i - start]) : 0;
    while (i + length < text.size() && text[length] == text[i + length]) ++length;
    lengths[i] = length;
    if (i + length > end) {
      start = i;
      end = i + length;
    }
  }
  return lengths;
}

}  // namespace

Dry::Dry(const DryOptions& options, BreaksRepetition breaks)
    : options_(options), breaks_(std::move(breaks)) {}

void Dry::add(int32_t token) {
  if (!is_on()) return;
  text_.push_front(token);
  if (text_.size() > static_cast<size_t>(options_.last_n)) text_.pop_back();
}

/// Of a repetition: back to the last token that breaks one.
size_t Dry::longest() const {
  if (!breaks_) return text_.size();
  return static_cast<size_t>(std::find_if(text_.begin(), text_.end(), breaks_) - text_.begin());
}

std::unordered_map<int32_t, float> Dry::penalties() const {
  std::unordered_map<int32_t, float> penalties;
  const auto allowed = static_cast<size_t>(options_.allowed_length);
  const size_t most = longest();
  if (text_.size() <= allowed || most < allowed) return penalties;

  const std::vector<size_t> lengths = common_prefixes(text_);
  std::unordered_map<int32_t, size_t> longest_before;
  for (size_t i = 1; i < text_.size(); ++i) {
    const size_t length = std::min(lengths[i], most);
    if (length < allowed) continue;
    size_t& before = longest_before[text_[i - 1]];
    before = std::max(before, length);
  }
  for (const auto& [token, length] : longest_before) {
    if (breaks_ && breaks_(token)) continue;
    const double power = std::pow(double{options_.base}, static_cast<double>(length - allowed));
    // What is beyond a float would make an infinite logit NaN.
    const double penalty = std::min(options_.multiplier * power, 1e30);
    penalties.emplace(token, static_cast<float>(penalty));
  }
  return penalties;
}

}  // namespace thimble
