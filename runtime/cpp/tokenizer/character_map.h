#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/code_point_map.h"
#include "tokenizer/token_texts.h"

namespace thimble {

/// What becomes of each character by itself: lower case, accents, control characters
/// (schemas/tokenizer.fbs, CharacterMap).
class CharacterMap {
 public:
  static Result<CharacterMap> load(const FlatbufferTable& table);

  /// Writes the mapped text to `out`; false, and nothing written, when no character changes.
  /// `keeps_first`: whether the first character is not removed.
  bool apply(std::string_view text, bool* keeps_first, std::string* out) const;

 private:
  enum Kind : uint8_t { kStays, kReplaced, kBetweenSpaces };

  CodePointMap kinds_;
  FlatbufferVector<uint32_t> points_;
  TokenTexts replacements_;
};

}  // namespace thimble
