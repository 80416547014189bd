#pragma once

#include <string>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace thimble {

/// Turns tokens, one after another, into text in whole characters.
///
/// A character's bytes are held back until the last one is there. Bytes that cannot become a
/// character are replaced by U+FFFD as soon as that is certain, as the tokenizer's reference does.
class TokenStream {
 public:
  /// `tokenizer` must outlive the stream. `at_start`: the tokens begin a text, and do not go on
  /// behind a prompt.
  explicit TokenStream(const Tokenizer& tokenizer, bool at_start = true)
      : tokenizer_(tokenizer), at_start_(at_start) {}

  /// The text that `id` completes.
  std::string push(int32_t id) {
    // SentencePiece joins bytes to characters only where nothing stands between them.
    if (tokenizer_.replaces_each_byte() && tokenizer_.token_bytes(id).empty()) return finish();
    held_ += at_start_ ? tokenizer_.decode_token(-1, id) : tokenizer_.token_bytes(id);
    at_start_ = at_start_ && tokenizer_.token_bytes(id).empty();
    return take(/*at_end=*/false);
  }

  /// The text for what is still held back.
  std::string finish() { return take(/*at_end=*/true); }

 private:
  std::string take(bool at_end) {
    std::string text;
    std::string_view rest = held_;
    while (!rest.empty()) {
      Utf8Scan scan = scan_utf8(rest);
      if (scan.kind == Utf8Kind::kCut && !at_end) break;
      if (scan.kind == Utf8Kind::kWhole) {
        text += rest.substr(0, scan.length);
      } else {
        text += kReplacementCharacter;
        if (tokenizer_.replaces_each_byte()) scan.length = 1;
      }
      rest.remove_prefix(scan.length);
    }
    held_.erase(0, held_.size() - rest.size());
    return text;
  }

  const Tokenizer& tokenizer_;
  bool at_start_;
  std::string held_;
};

}  // namespace thimble
