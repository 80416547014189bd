#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/decoder.h"
#include "tokenizer/step.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_models.h"

namespace thimble {

/// A part of a text to encode.
struct Piece {
  std::string text;
  bool literal;  ///< may contain special tokens such as <|eot_id|>; text from a user may not
};

/// A tokenizer compiled at export (schemas/tokenizer.fbs). Its tables are used in place.
///
/// A text is cut at added tokens; what lies between is normalized, split into pieces, and each
/// piece encoded by the model.
class Tokenizer {
 public:
  /// Reads the compiled form, in about a millisecond. `data` must outlive the tokenizer. Fails with
  /// a sentence if the bytes are damaged, or of another kind or version.
  static Result<Tokenizer> load(const uint8_t* data, size_t size);

  /// The tokens of `text` without BOS; bytes that are not UTF-8 count as U+FFFD. Special tokens in
  /// it become their ids if `parse_special`, else they are plain text. `text` must be shorter than
  /// 1 GiB.
  std::vector<int32_t> encode(std::string_view text, bool parse_special) const;

  /// The tokens of the pieces read as one text, in which only the literal ones may contain special
  /// tokens.
  std::vector<int32_t> encode(const std::vector<Piece>& pieces) const;

  /// The bytes that `id` adds amid a text: none for a special token or an id out of range.
  std::string_view token_bytes(int32_t id) const {
    return decoder_.text(id, /*first=*/false, /*last=*/false);
  }

  const Decoder& decoder() const { return decoder_; }
  int32_t bos_id() const { return bos_id_; }  ///< -1: there is none
  bool adds_bos() const { return adds_bos_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  int32_t vocab_size() const { return decoder_.vocab_size(); }

  const std::vector<AddedToken>& added_tokens() const { return added_tokens_.tokens(); }
  /// The id of the added token `name`; -1 if there is none.
  int32_t find_special(std::string_view name) const { return added_tokens_.find(name); }

  /// The texts that encode() takes for special tokens where it may.
  std::vector<std::string_view> special_tokens() const { return added_tokens_.special(); }

  /// The bytes that `id` stands for: what it adds amid a text, or the text of a special token.
  std::string_view text_of(int32_t id) const {
    const std::string_view bytes = token_bytes(id);
    return bytes.empty() ? added_tokens_.content(id) : bytes;
  }

 private:
  using Model = std::variant<BpeModel, Unigram, WordPiece, WordLevel>;

  Status load_ids(const FlatbufferTable& table);
  Status load_model(const FlatbufferTable& table);
  void encode_raw(std::string_view text, const std::vector<LiteralRange>& literal,
                  std::vector<int32_t>* ids) const;
  void encode_segment(std::string_view text, bool at_start, bool literal, Encoding* encoding) const;
  void encode_piece(std::string_view text, bool at_start, size_t step, Encoding* encoding) const;

  Decoder decoder_;
  int32_t bos_id_ = -1;
  bool adds_bos_ = false;
  std::vector<int32_t> eos_ids_;
  AddedTokens added_tokens_;
  std::vector<Step> normalizers_;
  std::vector<Step> pre_tokenizers_;
  Model model_;
};

}  // namespace thimble
