#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/automaton.h"
#include "tokenizer/character_map.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/normalization_form.h"

namespace thimble {

/// One step before the model (schemas/tokenizer.fbs, Step): it changes a text, or splits it.
class Step {
 public:
  static Result<Step> load(const FlatbufferTable& table);

  bool splits() const { return kind_ == kSplit; }

  /// Writes the changed text to `out`; false, and nothing written, when nothing changes.
  /// `at_start`: whether the text's first character is the first of all; false once it is removed.
  bool transform(std::string_view text, bool* at_start, std::string* out) const;

  /// Calls `emit(begin, end)` for each piece of `text`, in order.
  template <typename Emit>
  void split(std::string_view text, const Emit& emit) const {
    if (behavior_ == kIsolated) {
      automaton_.spans(text, [&](size_t begin, size_t end, bool) { emit(begin, end); });
      return;
    }
    size_t begin = 0;
    size_t end = 0;  // of a piece that may still grow; empty: there is none
    bool before = false;
    automaton_.spans(text, [&](size_t span_begin, size_t span_end, bool is_match) {
      is_match = is_match != inverted_;
      if (behavior_ == kRemoved) {
        if (!is_match) emit(span_begin, span_end);
        return;
      }
      if (begin == end || !joins(before, is_match)) {
        if (begin < end) emit(begin, end);
        begin = span_begin;
      }
      end = span_end;
      before = is_match;
    });
    if (begin < end) emit(begin, end);
  }

 private:
  enum Kind : uint8_t {
    kMap,
    kForm,
    kReplace,
    kPrepend,
    kStrip,
    kBytes,
    kCharsmap,
    kSpaces,
    kSplit,
  };
  enum Behavior : uint8_t {
    kIsolated,
    kRemoved,
    kContiguous,
    kMergedWithPrevious,
    kMergedWithNext,
  };

  /// Whether two adjoining spans, matches or not, make one piece.
  bool joins(bool before, bool now) const {
    switch (behavior_) {
      case kContiguous:
        return before == now;
      case kMergedWithPrevious:
        return now && !before;
      case kMergedWithNext:
        return before && !now;
      default:
        return false;
    }
  }

  bool replace(std::string_view text, bool* at_start, std::string* out) const;
  bool strip(std::string_view text, bool* at_start, std::string* out) const;
  bool change_spaces(std::string_view text, std::string* out) const;

  uint8_t kind_ = kMap;
  CharacterMap map_;
  NormalizationForm form_;
  Automaton automaton_;
  Charsmap charsmap_;
  std::string_view text_;
  uint8_t behavior_ = kIsolated;
  bool inverted_ = false;
  bool unless_there_ = false;
  bool only_first_ = false;
  bool strips_left_ = false;
  bool strips_right_ = false;
  bool removes_extra_ = false;
  bool adds_prefix_ = false;
  bool adds_suffix_ = false;
  bool escapes_ = false;
};

}  // namespace thimble
