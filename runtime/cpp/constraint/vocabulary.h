#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "constraint/token_names.h"
#include "constraint/token_trie.h"

namespace thimble {

class Tokenizer;

/// The tokens of a model as a constraint needs them.
///
/// They are in groups by their number of bytes, because a group's mask depends on no more of a text
/// than its longest token has. Most tokens are plain: whole characters that a JSON string may hold
/// without an escape. They are apart in each group: where a state allows any plain characters,
/// plain() of as many is added without a walk. Special tokens are among the others, with their
/// marks as bytes.
class Vocabulary {
 public:
  /// `texts`: the bytes of each token, empty if it is in no text. `ends`: the tokens that end a
  /// text; their bytes do not count. `size`: of the model's logits, which may be more. `names`: the
  /// tokens that a grammar can name.
  Vocabulary(const std::vector<std::string_view>& texts, const std::vector<int32_t>& ends,
             size_t size, const std::vector<TokenNames::Name>& names = {});
  /// The tokens of a tokenizer, named as its added tokens are.
  Vocabulary(const Tokenizer& tokenizer, const std::vector<int32_t>& ends, size_t size);

  size_t size() const { return size_; }
  const std::vector<int32_t>& ends() const { return ends_; }
  const TokenNames& names() const { return names_; }

  struct Group {
    uint32_t most_bytes;
    size_t most_characters;  ///< of a plain one
    TokenTrie plain, other;
  };
  const std::vector<Group>& groups() const { return groups_; }
  static constexpr size_t kMostGroups = 5;
  static constexpr size_t kMostCharacters = 20;  ///< of a token among the plain: few have more
  /// The plain tokens of up to `characters`, at most kMostCharacters.
  const TokenMask& plain(size_t characters) const { return plain_[characters]; }
  size_t bytes() const;

 private:
  std::vector<TokenTrie::Token> sorted(const std::vector<std::string_view>& texts) const;

  size_t size_;
  std::vector<int32_t> ends_;
  TokenNames names_;
  std::vector<Group> groups_;
  std::vector<TokenMask> plain_;
};

}  // namespace thimble
