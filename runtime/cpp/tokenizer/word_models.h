#pragma once

#include <cstdint>
#include <string_view>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/encoding.h"
#include "tokenizer/hash_tables.h"
#include "tokenizer/trie.h"

namespace thimble {

/// The longest token first, from the left (BERT's WordPiece).
class WordPiece {
 public:
  static Result<WordPiece> load(const FlatbufferTable& table, int32_t vocab_size);

  void encode(std::string_view word, Encoding* encoding) const;

 private:
  uint32_t vocab_size_ = 0;
  Trie trie_;
  uint32_t inside_ = Trie::kNone;  ///< the trie's place behind the prefix of a word's other tokens
  int32_t unknown_id_ = -1;
  uint32_t max_characters_ = 0;
};

/// A token for each word that has one.
class WordLevel {
 public:
  static Result<WordLevel> load(const FlatbufferTable& table, const TokenTexts& decoded);

  void encode(std::string_view word, Encoding* encoding) const;

 private:
  uint32_t vocab_size_ = 0;
  WordTable words_;
  int32_t unknown_id_ = -1;
  ByteTokens byte_tokens_;
  bool fuses_unknown_ = false;
};

}  // namespace thimble
