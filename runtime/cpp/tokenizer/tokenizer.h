#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/hash_tables.h"
#include "tokenizer/nfc.h"
#include "tokenizer/splitter.h"

namespace thimble {

/// A part of a text to encode.
struct Piece {
  std::string text;
  bool literal;  ///< may contain special tokens such as <|eot_id|>; text from a user may not
};

/// A BPE tokenizer compiled at export (schemas/tokenizer.fbs): byte-level, or SentencePiece's with
/// byte fallback. Its tables are used in place.
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

  /// The bytes that `id` adds to a text: empty for a special token or an id out of range.
  std::string_view token_bytes(int32_t id) const;

  /// The bytes that `id` adds after `previous` (-1: at the start of the text). SentencePiece's
  /// space at the start of a text, which may follow BOS, is left out.
  std::string_view decode_token(int32_t previous, int32_t id) const;

  int32_t bos_id() const { return bos_id_; }  ///< -1: there is none
  bool adds_bos() const { return adds_bos_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  int32_t vocab_size() const { return static_cast<int32_t>(token_ends_.size()); }

  /// Whether damaged characters decode to one U+FFFD for each byte, as in SentencePiece.
  bool replaces_each_byte() const { return alphabet_ == kCharacters; }

  /// The id of the added token `name`; -1 if there is none.
  int32_t find_special(std::string_view name) const { return added_tokens_.find(name); }

 private:
  enum Alphabet : uint8_t { kBytes, kCharacters };
  enum SpacePrefix : uint8_t { kNoPrefix, kTextStart, kEverySegment };
  struct Encoding;

  Status load_vocabulary(const FlatbufferTable& table);
  Status load_steps(const FlatbufferTable& table);
  void encode_raw(std::string_view text, const std::vector<LiteralRange>& literal,
                  std::vector<int32_t>* ids) const;
  void encode_segment(std::string_view text, bool at_start, bool literal, Encoding* encoding) const;
  void encode_normalized(std::string_view text, bool at_start, Encoding* encoding) const;
  void encode_split(std::string_view text, size_t step, Encoding* encoding) const;
  void encode_word(std::string_view word, Encoding* encoding) const;
  void encode_characters(std::string_view text, bool at_start, Encoding* encoding) const;
  void append_character(uint32_t point, std::vector<uint32_t>* symbols) const;
  void flush(Encoding* encoding) const;

  int32_t bos_id_ = -1;
  bool adds_bos_ = false;
  std::vector<int32_t> eos_ids_;
  FlatbufferVector<uint32_t> token_ends_;
  FlatbufferVector<uint8_t> token_bytes_;
  uint8_t alphabet_ = kBytes;
  FlatbufferVector<int32_t> byte_symbols_;
  FlatbufferVector<uint32_t> characters_;
  FlatbufferVector<uint32_t> character_symbols_;
  MergeTable merges_;
  WordTable words_;
  bool has_words_ = false;
  std::vector<Splitter> splitters_;
  Nfc nfc_;
  bool has_nfc_ = false;
  AddedTokens added_tokens_;
  uint8_t space_prefix_ = kNoPrefix;
  bool space_prefix_unless_space_ = false;
  bool strips_first_space_ = false;
  bool words_begin_at_spaces_ = false;
};

}  // namespace thimble
