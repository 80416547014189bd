#include "tokenizer/bpe_model.h"

#include <string>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field {
  kByteSymbols,
  kCharacters,
  kByteFallback,
  kPrefix,
  kSuffix,
  kUnknownId,
  kFusesUnknown,
  kVirtualCharacters,
  kMerges,
  kMergeHomes,
  kWords,
};

}  // namespace

Result<BpeModel> BpeModel::load(const FlatbufferTable& table, const TokenTexts& decoded) {
  BpeModel model;
  const auto vocab_size = static_cast<int32_t>(decoded.size());
  model.vocab_size_ = static_cast<uint32_t>(vocab_size);
  Result<ByteTokens> bytes = ByteTokens::load(table.vector<int32_t>(kByteSymbols), vocab_size);
  if (!bytes.ok()) return bytes.status();
  model.byte_tokens_ = *bytes;
  const FlatbufferTables characters = table.tables(kCharacters);
  if (characters.size() != 0 && characters.size() != 1 && characters.size() != 4) {
    return Status::error("its characters are in too many maps");
  }
  for (size_t i = 0; i < characters.size(); ++i) {
    Result<CodePointSymbols> map = CodePointSymbols::load(characters[i]);
    if (!map.ok()) return map.status();
    model.characters_.push_back(*map);
  }
  model.byte_fallback_ = table.scalar<uint8_t>(kByteFallback) != 0;
  model.prefix_ = table.string(kPrefix);
  model.suffix_ = table.string(kSuffix);
  model.unknown_id_ = table.scalar<int32_t>(kUnknownId, -1);
  if (model.unknown_id_ >= vocab_size) return Status::error("its unknown token is none");
  model.fuses_unknown_ = table.scalar<uint8_t>(kFusesUnknown) != 0;
  model.virtual_characters_ = table.vector<uint32_t>(kVirtualCharacters);
  model.merges_ = MergeTable(table.vector<uint32_t>(kMerges), table.scalar<uint32_t>(kMergeHomes));
  model.has_words_ = table.has(kWords);
  model.words_ = WordTable(table.table(kWords), decoded);
  return model;
}

void BpeModel::encode(std::string_view word, Encoding* encoding) const {
  if (has_words_) {
    const uint32_t id = words_.find(word);
    if (id < vocab_size_) {
      encoding->ids->push_back(static_cast<int32_t>(id));
      return;
    }
  }
  Symbols symbols{&encoding->symbols};
  if (characters_.empty()) {
    start_from_bytes(word, &symbols);
  } else {
    start_from_characters(word, &symbols);
  }
  if (symbols.unknown) symbols.symbols->push_back(static_cast<uint32_t>(unknown_id_));
  encoding->merger.merge(merges_, &encoding->symbols);
  flush(encoding);
}

void BpeModel::start_from_bytes(std::string_view word, Symbols* symbols) const {
  for (const char c : word) {
    const int32_t symbol = byte_tokens_[static_cast<uint8_t>(c)];
    if (symbol >= 0) {
      add_known(static_cast<uint32_t>(symbol), symbols);
    } else {
      add_unknown(symbols);
    }
  }
}

void BpeModel::start_from_characters(std::string_view word, Symbols* symbols) const {
  const bool by_place = characters_.size() > 1;
  for (size_t position = 0; position < word.size();) {
    const size_t begin = position;
    const uint32_t point = next_code_point(word, &position);
    const bool first = begin == 0;
    const bool last = position == word.size();
    const size_t place = by_place ? (first ? 0 : 1) + (last ? 2 : 0) : 0;
    const uint32_t symbol = characters_[place][point];
    if (symbol != kNone) {
      add_known(symbol, symbols);
    } else if (!byte_fallback_ ||
               !fall_back(word.substr(begin, position - begin), first, last, symbols)) {
      add_unknown(symbols);
    }
  }
}

void BpeModel::add_known(uint32_t symbol, Symbols* symbols) const {
  if (symbols->unknown) symbols->symbols->push_back(static_cast<uint32_t>(unknown_id_));
  symbols->unknown = false;
  symbols->symbols->push_back(symbol);
}

void BpeModel::add_unknown(Symbols* symbols) const {
  if (unknown_id_ < 0) return;
  if (symbols->unknown && !fuses_unknown_) {
    symbols->symbols->push_back(static_cast<uint32_t>(unknown_id_));
  }
  symbols->unknown = true;
}

bool BpeModel::fall_back(std::string_view character, bool first, bool last,
                         Symbols* symbols) const {
  // An unknown token that waits stays behind these bytes, as in `tokenizers`.
  if (prefix_.empty() && suffix_.empty()) return byte_tokens_.append(character, symbols->symbols);
  std::string written(first ? std::string_view() : prefix_);
  written.append(character).append(last ? suffix_ : std::string_view());
  return byte_tokens_.append(written, symbols->symbols);
}

void BpeModel::flush(Encoding* encoding) const {
  bool after_unknown = false;
  for (const uint32_t symbol : encoding->symbols) {
    const size_t place = symbol - size_t{vocab_size_};
    const bool is_virtual = symbol >= vocab_size_;
    if (!is_virtual) {
      // Characters that no token holds have become the unknown token already.
      const bool is_unknown =
          virtual_characters_.size() > 0 && static_cast<int32_t>(symbol) == unknown_id_;
      if (!(is_unknown && after_unknown)) encoding->ids->push_back(static_cast<int32_t>(symbol));
      after_unknown = is_unknown;
      continue;
    }
    if (place >= virtual_characters_.size()) continue;
    // A character that is only ever part of a token: its bytes stand for it, or the unknown token.
    std::string bytes;
    append_utf8(virtual_characters_[place] & 0x1FFFFF, &bytes);
    if (byte_fallback_ && byte_tokens_.append(bytes, encoding->ids)) {
      after_unknown = false;
    } else if (unknown_id_ >= 0) {
      if (!after_unknown) encoding->ids->push_back(unknown_id_);
      after_unknown = true;
    }
  }
  encoding->symbols.clear();
}

}  // namespace thimble
