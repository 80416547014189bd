#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace thimble {

/// What becomes of special tokens in a text.
enum class SpecialTokens {
  kLeftOut,
  kText,   ///< each is its text
  kApart,  ///< left out too, but they end characters: the text before each is complete
};

/// Converts tokens, one after another, to text in complete characters.
///
/// The bytes of an incomplete character are held back. Bytes that cannot become a character are
/// replaced by U+FFFD as soon as that is certain, as in the reference tokenizer.
class TokenStream {
 public:
  /// `tokenizer` must outlive the stream. `at_start`: the tokens begin a text, and do not go on
  /// behind a prompt. `behind`: the prompt's last token, which reads otherwise where text follows
  /// it; -1: none.
  explicit TokenStream(const Tokenizer& tokenizer, bool at_start = true,
                       SpecialTokens special = SpecialTokens::kLeftOut, int32_t behind = -1);

  /// The text that `id` completes.
  std::string push(int32_t id);

  /// The text for what is still held back.
  std::string finish();

 private:
  /// How far a step on the joined text has come.
  struct Progress {
    uint32_t stripped = 0;  ///< of the characters at the start
    bool at_start;
    uint32_t held = 0;  ///< characters that are left out if the text ends with them
  };

  void add(int32_t id, bool last);
  std::string take(bool at_end);
  std::string finish_text(const std::string& text, bool at_end);

  const Tokenizer& tokenizer_;
  const Decoder& decoder_;
  const SpecialTokens special_;
  bool at_start_;
  int32_t waiting_ = -1;      ///< a token that would read otherwise if it were the last
  std::string_view between_;  ///< what the prompt's last token has if text follows
  std::string held_;
  std::vector<Progress> progress_;
};

}  // namespace thimble
