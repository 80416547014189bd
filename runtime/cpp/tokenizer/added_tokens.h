#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/code_point_map.h"

namespace thimble {

/// A token that is searched in the text before the text is split (schemas/tokenizer.fbs,
/// AddedToken).
struct AddedToken {
  std::string_view content;
  int32_t id;
  bool special;      ///< only where the caller allows it
  bool normalized;   ///< looked for in the normalized text
  bool lstrip;       ///< takes the white space before it along
  bool rstrip;       ///< takes the white space behind it along
  bool single_word;  ///< only where no character of a word adjoins it
};

/// A range [begin, end) of a text: a token, or, if `token` is null, text between tokens.
struct Stretch {
  size_t begin;
  size_t end;
  const AddedToken* token;
};

/// Where special tokens may appear in a text: ascending, disjoint ranges [begin, end).
struct LiteralRange {
  size_t begin;
  size_t end;
};

/// A tokenizer's added tokens, in two groups: those found in the raw text and those found in the
/// normalized text.
class AddedTokens {
 public:
  /// Fails when a token has no content, no place in the vocabulary, or is out of order.
  /// `word_characters`: 1 for those of words; null where no token has to be a word.
  static Result<AddedTokens> load(const FlatbufferTables& tables, int32_t vocab_size,
                                  const CodePointMap* word_characters);

  bool has_normalized() const { return normalized_begin_ < tokens_.size(); }

  /// Cuts `text` at the tokens of one group: the leftmost first, then the longest at that place. A
  /// special token outside `literal` is text. Empty ranges are left out.
  std::vector<Stretch> cut(std::string_view text, bool normalized,
                           const std::vector<LiteralRange>& literal) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// The id of the token `content`; -1 if there is none.
  int32_t find(std::string_view content) const;

  /// The content of the token `id`; "" if it is not one of them.
  std::string_view content(int32_t id) const;

  /// The contents of the special ones, in the order of their ids.
  std::vector<std::string_view> special() const;

 private:
  /// The longest token in [begin, end) with which `text` begins; null if there is none.
  const AddedToken* longest_prefix(std::string_view text, size_t begin, size_t end) const;

  /// Whether no character of a word adjoins [begin, end).
  bool stands_alone(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;  ///< sorted by normalized, then content
  size_t normalized_begin_ = 0;
  std::array<bool, 256> begins_raw_{};
  std::array<bool, 256> begins_normalized_{};
  CodePointMap word_characters_;
};

}  // namespace thimble
