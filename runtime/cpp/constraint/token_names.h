#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/token_mask.h"

namespace thimble {

/// The bytes that stand for a token that is in no text, such as <|eot_id|>: a byte that UTF-8 never
/// has, then the token's id. So a grammar over bytes can have it, and no text is taken for it.
std::string token_mark(int32_t id);
inline constexpr char kMarkByte = '\xFF';
inline constexpr size_t kMarkSize = 6;
/// The token whose mark `bytes` begins with; -1 if it begins with none.
int32_t marked_token(std::string_view bytes);
/// Whether a token of these bytes can be in a text under a constraint.
inline bool is_of_text(std::string_view bytes) {
  return !bytes.empty() && bytes.find(kMarkByte) == bytes.npos;
}

/// The tokens that a grammar can name: a tokenizer's added tokens, special or not, and those that
/// end a text.
class TokenNames {
 public:
  struct Name {
    std::string_view name;
    int32_t id;
  };
  struct Token {
    std::string name;   ///< empty if it has none
    std::string bytes;  ///< what it adds to a text under a constraint: its text or its mark
  };

  /// `texts`: the bytes of each token, empty if it is in no text. `ends`: tokens that end a text,
  /// which have marks, whatever their bytes. `size`: ids from it on are left out.
  TokenNames(const std::vector<Name>& names, const std::vector<std::string_view>& texts,
             const std::vector<int32_t>& ends, size_t size);

  /// Whether it has a mark.
  bool is_marked(int32_t id) const { return id >= 0 && marked_[static_cast<size_t>(id)]; }
  /// Null if there is none.
  const Token* find(int32_t id) const;
  const Token* find(std::string_view name) const;
  const std::map<int32_t, Token>& tokens() const { return tokens_; }

 private:
  std::map<int32_t, Token> tokens_;
  std::map<std::string, int32_t, std::less<>> ids_;
  TokenMask marked_;
};

}  // namespace thimble
