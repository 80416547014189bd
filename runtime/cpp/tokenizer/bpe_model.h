#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/byte_tokens.h"
#include "tokenizer/code_point_symbols.h"
#include "tokenizer/encoding.h"
#include "tokenizer/hash_tables.h"

namespace thimble {

/// Byte pair encoding, from bytes or from characters (schemas/tokenizer.fbs, Bpe).
class BpeModel {
 public:
  static Result<BpeModel> load(const FlatbufferTable& table, const TokenTexts& decoded);

  void encode(std::string_view word, Encoding* encoding) const;

 private:
  static constexpr uint32_t kNone = CodePointSymbols::kNone;

  /// Symbols that end with the unknown token for what came last.
  struct Symbols {
    std::vector<uint32_t>* symbols;
    bool unknown = false;
  };

  void start_from_bytes(std::string_view word, Symbols* symbols) const;
  void start_from_characters(std::string_view word, Symbols* symbols) const;
  void add_known(uint32_t symbol, Symbols* symbols) const;
  void add_unknown(Symbols* symbols) const;
  bool fall_back(std::string_view character, bool first, bool last, Symbols* symbols) const;
  void flush(Encoding* encoding) const;

  uint32_t vocab_size_ = 0;
  ByteTokens byte_tokens_;
  std::vector<CodePointSymbols> characters_;
  bool byte_fallback_ = false;
  std::string_view prefix_;
  std::string_view suffix_;
  int32_t unknown_id_ = -1;
  bool fuses_unknown_ = false;
  FlatbufferVector<uint32_t> virtual_characters_;
  MergeTable merges_;
  WordTable words_;
  bool has_words_ = false;
};

}  // namespace thimble
