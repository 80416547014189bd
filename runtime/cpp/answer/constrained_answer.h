#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "constraint/constraint.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// An answer that grows token by token under a constraint.
class ConstrainedAnswer {
 public:
  /// Both must outlive the answer. `at_start`: its tokens begin a text, and do not go on behind a
  /// prompt.
  ConstrainedAnswer(Constraint& constraint, const Tokenizer& tokenizer, size_t vocab_size,
                    bool at_start);

  /// The tokens that may come next, one at least. Fails if there is none, or if the constraint
  /// takes more memory than it may. Valid until the next call.
  Result<const TokenMask*> allowed();

  /// Adds a token that is allowed. One that ends the text adds nothing, unless the constraint
  /// demands it by name.
  void add(int32_t token);

  /// Whether the answer may end here.
  bool complete() const { return matcher_.complete(); }
  /// Whether nothing may follow.
  bool ended() const { return matcher_.ended(); }

  /// The special tokens and those of text that must follow, whatever else does, as the tokenizer
  /// splits the text; without those that what comes after might change. Several, or none.
  std::vector<int32_t> forced() const;

 private:
  /// A token that is in no text by itself, because it is special, or ends the text.
  bool is_apart(int32_t token) const {
    return constraint_.names().is_marked(token) || tokenizer_.decoder().skips(token);
  }
  std::string text_of(int32_t token) const;
  const TokenMask& first_mask();
  std::vector<int32_t> split(const std::string& special, const std::string& before,
                             std::string_view text) const;

  Constraint& constraint_;
  const Tokenizer& tokenizer_;
  size_t vocab_size_;
  bool at_start_;
  Matcher matcher_;
  TokenMask first_mask_;
  std::string special_;  ///< the name of the last special token; empty if it has none
  std::string text_;     ///< the end of the answer so far, behind that
};

}  // namespace thimble
