#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/code_points.h"
#include "core/status.h"

namespace thimble {

/// A regular expression as a tree.
struct Regex {
  enum class Kind {
    kCharacter,
    kSequence,
    kChoice,
    kRepeat,
    kBegin,
    kEnd,
    kBoundary,   ///< of a word; or, negated, where there is none
    kLookahead,  ///< what follows must begin with its part; negated: must not
  };

  Kind kind = Kind::kSequence;
  CodePoints points;          ///< kCharacter: one of them
  uint64_t min = 0, max = 0;  ///< kRepeat
  std::vector<Regex> parts;   ///< one for kRepeat and kLookahead
  size_t offset = 0;          ///< in the text, for messages
  bool negated = false;       ///< kBoundary, kLookahead
  bool has_boundary = false;  ///< it or a part is kBoundary
};

/// Parses ECMA-262's regular expressions as JSON schemas use them (the flag u, no other): classes,
/// escapes, Unicode properties, groups, choices, quantifiers, anchors, word boundaries, lookaheads.
/// Lookbehinds and back references are refused, with their place.
Result<Regex> parse_regex_syntax(std::string_view text);

}  // namespace thimble
