#pragma once

#include <string>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace thimble {

/// Converts tokens, one after another, to text in complete characters.
///
/// The bytes of an incomplete character are held back. Bytes that cannot become a character are
/// replaced by U+FFFD as soon as that is certain, as in the reference tokenizer.
class TokenStream {
 public:
  /// `tokenizer` must outlive the stream. `at_start`: the tokens begin a text, rather than continue
  /// a prompt.
  explicit TokenStream(const Tokenizer& tokenizer, bool at_start = true)
      : tokenizer_(tokenizer), at_start_(at_start) {}

  /// Returns the text that `id` completes.
  std::string push(int32_t id) {
    // SentencePiece joins bytes to characters only if they are adjacent.
    if (tokenizer_.replaces_each_byte() && tokenizer_.token_bytes(id).empty()) return finish();
    held_ += at_start_ ? tokenizer_.decode_token(-1, id) : tokenizer_.token_bytes(id);
    at_start_ = at_start_ && tokenizer_.token_bytes(id).empty();
    return take(/*at_end=*/false);
  }

  /// Returns the text for the bytes that are still held back.
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
