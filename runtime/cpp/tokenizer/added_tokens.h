#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"

namespace thimble {

/// A token that is searched in the text before the text is split (schemas/tokenizer.fbs,
/// AddedToken).
struct AddedToken {
  std::string_view content;
  int32_t id;
  bool special;     ///< found only where the caller allows it
  bool normalized;  ///< searched in the normalized text
  bool lstrip;      ///< includes the white space before it
  bool rstrip;      ///< includes the white space after it
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
  static Result<AddedTokens> load(const FlatbufferTables& tables, int32_t vocab_size);

  bool has_normalized() const { return normalized_begin_ < tokens_.size(); }

  /// Cuts `text` at the tokens of one group: the leftmost first, then the longest at that place. A
  /// special token outside `literal` is text. Empty ranges are left out.
  std::vector<Stretch> cut(std::string_view text, bool normalized,
                           const std::vector<LiteralRange>& literal) const;

  /// The id of the token `content`; -1 if there is none.
  int32_t find(std::string_view content) const;

 private:
  /// The longest token in [begin, end) with which `text` begins; null if there is none.
  const AddedToken* longest_prefix(std::string_view text, size_t begin, size_t end) const;

  std::vector<AddedToken> tokens_;  ///< sorted by normalized, then content
  size_t normalized_begin_ = 0;
  std::array<bool, 256> begins_raw_{};
  std::array<bool, 256> begins_normalized_{};
};

}  // namespace thimble
