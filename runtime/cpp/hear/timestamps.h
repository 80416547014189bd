#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// The tokens of a window's text with the times between which they were spoken.
struct TimedPart {
  size_t first, last;  ///< of the tokens: those before `last`
  size_t begin, end;   ///< in steps of time behind the window's begin
};

/// The tokens of times, which a model may write around each part of a text.
class Timestamps {
 public:
  /// \param first the token of a window's begin; each further one is a step behind the one before.
  /// \param end the token that ends a text; those before it are text.
  /// \param most_first the latest step at which a text may begin.
  Timestamps(int32_t first, int32_t end, size_t most_first)
      : first_(first), end_(end), most_first_(most_first) {}

  bool is_time(int32_t token) const { return token >= first_; }

  /// Makes impossible what may not follow a text: times come in pairs, but before its end, and do
  /// not decrease; it begins with one. If a time is more likely than each other token, it is one.
  void forbid(const std::vector<int32_t>& text, std::vector<float>* logits) const;

  /// Cuts a window's text where one part ends and the next begins. What is behind the last such
  /// place belongs to the next window, unless the text ends with a time.
  /// \param steps of the window.
  /// \param used how many of them the parts have, or were silent; at least one.
  std::vector<TimedPart> cut(const std::vector<int32_t>& text, size_t steps, size_t* used) const;

 private:
  size_t step(int32_t token) const { return static_cast<size_t>(token - first_); }

  const int32_t first_, end_;
  const size_t most_first_;
};

}  // namespace thimble
