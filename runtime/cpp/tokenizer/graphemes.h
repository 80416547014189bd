#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tokenizer/code_point_map.h"

namespace thimble {

/// Where a user-perceived character ends (Unicode Standard Annex 29, extended grapheme clusters,
/// without the pairs of regional indicators).
/// The values are exporter/tokenizer/graphemes.py's.
enum class GraphemeClass : uint8_t {
  kOther,
  kCarriageReturn,
  kLineFeed,
  kControl,
  kExtend,
  kExtendApart,  ///< extends, but does not lie within a conjunct
  kLinker,       ///< extends, and links two consonants
  kJoiner,
  kPrepend,
  kSpacingMark,
  kHangulLead,
  kHangulVowel,
  kHangulTrail,
  kHangulOpen,    ///< a syllable without a trail
  kHangulClosed,  ///< a syllable with one
  kPictograph,
  kConsonant,  ///< of a script that forms conjuncts
};

/// How many bytes the first cluster of `text`, which must not be empty, takes.
size_t grapheme_length(std::string_view text, const CodePointMap& classes);

}  // namespace thimble
