#include "tokenizer/word_models.h"

#include <algorithm>

namespace thimble {
namespace {

enum PieceField { kTrie, kPrefix, kUnknownId, kMaxCharacters };
enum LevelField { kWords, kLevelUnknownId, kByteSymbols, kFusesUnknown };

bool begins_character(char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }

}  // namespace

Result<WordPiece> WordPiece::load(const FlatbufferTable& table, int32_t vocab_size) {
  WordPiece model;
  model.vocab_size_ = static_cast<uint32_t>(vocab_size);
  model.trie_ = Trie(table.table(kTrie));
  model.inside_ = model.trie_.descend(Trie::kRoot, table.string(kPrefix));
  model.unknown_id_ = table.scalar<int32_t>(kUnknownId, -1);
  model.max_characters_ = table.scalar<uint32_t>(kMaxCharacters);
  if (model.unknown_id_ >= vocab_size) return Status::error("its unknown token is none");
  return model;
}

void WordPiece::encode(std::string_view word, Encoding* encoding) const {
  const auto before = static_cast<std::ptrdiff_t>(encoding->ids->size());
  size_t begin = 0;
  if (static_cast<size_t>(std::count_if(word.begin(), word.end(), begins_character)) <=
      max_characters_) {
    while (begin < word.size()) {
      uint32_t node = begin == 0 ? Trie::kRoot : inside_;
      uint32_t best = Trie::kNone;
      size_t end = begin;
      for (size_t i = begin; i < word.size() && node != Trie::kNone; ++i) {
        node = trie_.child(node, static_cast<uint8_t>(word[i]));
        const uint32_t id = node == Trie::kNone ? Trie::kNone : trie_.value(node);
        if (id >= vocab_size_) continue;
        best = id;
        end = i + 1;
      }
      if (best == Trie::kNone) break;
      encoding->ids->push_back(static_cast<int32_t>(best));
      begin = end;
    }
  }
  if (begin == word.size()) return;
  encoding->ids->erase(encoding->ids->begin() + before, encoding->ids->end());
  if (unknown_id_ >= 0) encoding->ids->push_back(unknown_id_);
}

Result<WordLevel> WordLevel::load(const FlatbufferTable& table, const TokenTexts& decoded) {
  WordLevel model;
  const auto vocab_size = static_cast<int32_t>(decoded.size());
  model.vocab_size_ = static_cast<uint32_t>(vocab_size);
  model.words_ = WordTable(table.table(kWords), decoded);
  model.unknown_id_ = table.scalar<int32_t>(kLevelUnknownId, -1);
  if (model.unknown_id_ >= vocab_size) return Status::error("its unknown token is none");
  Result<ByteTokens> bytes = ByteTokens::load(table.vector<int32_t>(kByteSymbols), vocab_size);
  if (!bytes.ok()) return bytes.status();
  model.byte_tokens_ = *bytes;
  model.fuses_unknown_ = table.scalar<uint8_t>(kFusesUnknown) != 0;
  return model;
}

void WordLevel::encode(std::string_view word, Encoding* encoding) const {
  const uint32_t id = words_.find(word);
  const bool known = id < vocab_size_;
  if (known) {
    encoding->ids->push_back(static_cast<int32_t>(id));
  } else if (!byte_tokens_.append(word, encoding->ids) && unknown_id_ >= 0 &&
             !(fuses_unknown_ && encoding->after_unknown)) {
    encoding->ids->push_back(unknown_id_);
  }
  encoding->after_unknown = !known;
}

}  // namespace thimble
