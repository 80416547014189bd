#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/code_point_map.h"
#include "tokenizer/utf8.h"

namespace thimble {

/// One pattern, compiled at export into an automaton over classes of code points
/// (schemas/tokenizer.fbs, table Automaton).
class Automaton {
 public:
  static Result<Automaton> load(const FlatbufferTable& table);

  /// Calls `visit(begin, end, is_match)` for each match and each gap between matches, which
  /// together cover `text` (valid UTF-8), in order.
  template <typename Visit>
  void spans(std::string_view text, const Visit& visit) const {
    size_t gap = 0;
    size_t position = 0;
    while (position < text.size()) {
      const size_t end = match(text, position);
      if (end == position) {
        next_code_point(text, &position);
        continue;
      }
      if (gap < position) visit(gap, position, false);
      visit(position, end, true);
      gap = position = end;
    }
    if (gap < text.size()) visit(gap, text.size(), false);
  }

 private:
  static constexpr uint16_t kMatch = 0x8000;
  static constexpr uint16_t kDead = 0;
  static constexpr uint16_t kStart = 1;

  /// The end of the preferred match that begins at `start`; `start` if there is none.
  size_t match(std::string_view text, size_t start) const {
    size_t end = start;
    size_t position = start;
    uint16_t state = kStart;
    while (state != kDead) {
      const bool at_end = position == text.size();
      const size_t before = position;
      const size_t character_class =
          at_end ? num_classes_ : classes_[next_code_point(text, &position)];
      const uint16_t transition = transitions_[state * (num_classes_ + 1) + character_class];
      if (transition & kMatch) end = before;
      if (at_end) break;
      state = transition & ~kMatch;
    }
    return end;
  }

  CodePointMap classes_;
  size_t num_classes_ = 0;
  FlatbufferVector<uint16_t> transitions_;
};

}  // namespace thimble
