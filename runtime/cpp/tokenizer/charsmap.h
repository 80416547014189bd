#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/code_point_map.h"
#include "tokenizer/trie.h"

namespace thimble {

/// SentencePiece's precompiled map of texts to texts, in one of two readings: SentencePiece's own,
/// or that of `tokenizers`, which looks at grapheme clusters.
class Charsmap {
 public:
  static Result<Charsmap> load(const FlatbufferTable& table);

  std::string normalize(std::string_view text) const {
    return by_graphemes_ ? normalize_graphemes(text) : normalize_longest(text);
  }

 private:
  struct Match {
    size_t length;  ///< bytes of the text; 0: there is none
    uint32_t value;
  };

  /// The shortest or the longest entry that `text` begins with.
  Match match(std::string_view text, bool longest) const;
  std::string_view replacement(uint32_t value) const;
  std::string normalize_graphemes(std::string_view text) const;
  std::string normalize_longest(std::string_view text) const;

  FlatbufferVector<uint32_t> units_;
  FlatbufferVector<uint8_t> texts_;
  Trie kept_;
  bool by_graphemes_ = false;
  CodePointMap classes_;
};

}  // namespace thimble
