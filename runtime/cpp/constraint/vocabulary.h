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
/// Most tokens are plain: whole characters that a JSON string may hold without an escape. They are
/// apart, in groups by their number of characters: where a state allows any plain characters, as
/// many as the longest of a group has, the group's mask is added without a walk. Special tokens are
/// among the others, with their marks as bytes.
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

  /// A group of plain tokens.
  struct Group {
    size_t most_characters;
    TokenMask mask;
    TokenTrie trie;
  };
  const std::vector<Group>& groups() const { return groups_; }
  const TokenTrie& other() const { return other_; }
  size_t bytes() const;

 private:
  std::vector<TokenTrie::Token> sorted(const std::vector<std::string_view>& texts) const;

  size_t size_;
  std::vector<int32_t> ends_;
  TokenNames names_;
  std::vector<Group> groups_;
  TokenTrie other_;
};

}  // namespace thimble
