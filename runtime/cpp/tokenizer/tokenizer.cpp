#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>

#include "tokenizer/bpe.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kMaxSplitters = 16;
constexpr uint32_t kSpace = 0x20;
constexpr uint32_t kEscapedSpace = 0x2581;

enum Field {
  kVersionField,
  kVocabSize,
  kBosId,
  kAddsBos,
  kEosIds,
  kTokenEnds,
  kTokenBytes,
  kAlphabet,
  kByteSymbols,
  kCharactersField,
  kCharacterSymbols,
  kMerges,
  kMergeHomes,
  kWords,
  kWordHomes,
  kSplitters,
  kNfc,
  kAddedTokens,
  kSpacePrefix,
  kSpacePrefixUnlessSpace,
  kStripsFirstSpace,
  kWordsBeginAtSpaces,
};

Status damaged(const std::string& what) {
  return Status::error("the compiled tokenizer is damaged (" + what + "): export the model again");
}

}  // namespace

/// The ids of a text, and the working memory for its words.
struct Tokenizer::Encoding {
  BpeMerger merger;
  std::vector<uint32_t> symbols;
  std::vector<int32_t>* ids;
};

Result<Tokenizer> Tokenizer::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THTK");
  if (!table.valid()) return damaged("it is not a tokenizer");
  const auto version = table.scalar<uint32_t>(kVersionField);
  if (version != kVersion) {
    return Status::error("the compiled tokenizer has version " + std::to_string(version) +
                         "; this program reads version " + std::to_string(kVersion) +
                         ": export the model again");
  }
  Tokenizer tokenizer;
  Status status = tokenizer.load_vocabulary(table);
  if (status.ok()) status = tokenizer.load_steps(table);
  if (!status.ok()) return damaged(status.message());
  return tokenizer;
}

Status Tokenizer::load_vocabulary(const FlatbufferTable& table) {
  token_ends_ = table.vector<uint32_t>(kTokenEnds);
  token_bytes_ = table.vector<uint8_t>(kTokenBytes);
  const size_t vocab_size = token_ends_.size();
  if (vocab_size == 0 || vocab_size != table.scalar<uint32_t>(kVocabSize)) {
    return Status::error("the number of its tokens is not the size of its vocabulary");
  }
  const auto is_token = [vocab_size](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < vocab_size;
  };
  bos_id_ = table.scalar<int32_t>(kBosId, -1);
  if (bos_id_ != -1 && !is_token(bos_id_)) return Status::error("its BOS is not a token");
  adds_bos_ = table.scalar<uint8_t>(kAddsBos) != 0 && bos_id_ >= 0;
  const auto eos_ids = table.vector<int32_t>(kEosIds);
  for (size_t i = 0; i < eos_ids.size(); ++i) {
    if (!is_token(eos_ids[i])) return Status::error("one of its end tokens is not a token");
    eos_ids_.push_back(eos_ids[i]);
  }
  uint32_t last = 0;
  for (size_t i = 0; i < vocab_size; ++i) {
    const uint32_t end = token_ends_[i];
    if (end < last || end > token_bytes_.size())
      return Status::error("its tokens are outside the data");
    last = end;
  }
  alphabet_ = table.scalar<uint8_t>(kAlphabet);
  byte_symbols_ = table.vector<int32_t>(kByteSymbols);
  if (alphabet_ > kCharacters || byte_symbols_.size() != 256) {
    return Status::error("its alphabet is unknown");
  }
  for (size_t i = 0; i < byte_symbols_.size(); ++i) {
    if (byte_symbols_[i] != -1 && !is_token(byte_symbols_[i])) {
      return Status::error("one of its bytes is not a token");
    }
  }
  characters_ = table.vector<uint32_t>(kCharactersField);
  character_symbols_ = table.vector<uint32_t>(kCharacterSymbols);
  if (characters_.size() != character_symbols_.size()) {
    return Status::error("the numbers of its characters and of their symbols differ");
  }
  for (size_t i = 0; i < characters_.size(); ++i) {
    if (characters_[i] >= 0x110000)
      return Status::error("one of its characters is not a code point");
  }
  return {};
}

Status Tokenizer::load_steps(const FlatbufferTable& table) {
  merges_ = MergeTable(table.vector<uint32_t>(kMerges), table.scalar<uint32_t>(kMergeHomes));
  has_words_ = table.has(kWords);
  words_ = WordTable(table.vector<uint32_t>(kWords), table.scalar<uint32_t>(kWordHomes));
  const FlatbufferTables splitters = table.tables(kSplitters);
  if (splitters.size() > kMaxSplitters) return Status::error("it has too many splitters");
  for (size_t i = 0; i < splitters.size(); ++i) {
    Result<Splitter> splitter = Splitter::load(splitters[i]);
    if (!splitter.ok()) return splitter.status();
    splitters_.push_back(*splitter);
  }
  has_nfc_ = table.has(kNfc);
  if (has_nfc_) {
    Result<Nfc> nfc = Nfc::load(table.table(kNfc));
    if (!nfc.ok()) return nfc.status();
    nfc_ = *nfc;
  }
  Result<AddedTokens> added = AddedTokens::load(table.tables(kAddedTokens), vocab_size());
  if (!added.ok()) return added.status();
  added_tokens_ = std::move(*added);
  space_prefix_ = table.scalar<uint8_t>(kSpacePrefix);
  if (space_prefix_ > kEverySegment) return Status::error("its treatment of spaces is unknown");
  space_prefix_unless_space_ = table.scalar<uint8_t>(kSpacePrefixUnlessSpace) != 0;
  strips_first_space_ = table.scalar<uint8_t>(kStripsFirstSpace) != 0;
  words_begin_at_spaces_ = table.scalar<uint8_t>(kWordsBeginAtSpaces) != 0;
  return {};
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  const std::string valid = with_valid_utf8(text);
  std::vector<int32_t> ids;
  std::vector<LiteralRange> literal;
  if (parse_special) literal.push_back({0, valid.size()});
  encode_raw(valid, literal, &ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode(const std::vector<Piece>& pieces) const {
  std::string text;
  std::vector<LiteralRange> literal;
  for (const Piece& piece : pieces) {
    const size_t begin = text.size();
    text += with_valid_utf8(piece.text);
    if (!piece.literal) continue;
    if (!literal.empty() && literal.back().end == begin) {
      literal.back().end = text.size();
    } else {
      literal.push_back({begin, text.size()});
    }
  }
  std::vector<int32_t> ids;
  encode_raw(text, literal, &ids);
  return ids;
}

void Tokenizer::encode_raw(std::string_view text, const std::vector<LiteralRange>& literal,
                           std::vector<int32_t>* ids) const {
  Encoding encoding{BpeMerger(merges_), {}, ids};
  for (const Stretch& stretch : added_tokens_.cut(text, /*normalized=*/false, literal)) {
    if (stretch.token != nullptr) {
      ids->push_back(stretch.token->id);
      continue;
    }
    const bool is_literal =
        std::any_of(literal.begin(), literal.end(), [&stretch](const LiteralRange& range) {
          return range.begin <= stretch.begin && stretch.end <= range.end;
        });
    encode_segment(text.substr(stretch.begin, stretch.end - stretch.begin), stretch.begin == 0,
                   is_literal, &encoding);
  }
}

void Tokenizer::encode_segment(std::string_view text, bool at_start, bool literal,
                               Encoding* encoding) const {
  std::string normalized;
  if (has_nfc_ && !nfc_.is_inert(text)) {
    normalized = nfc_.normalize(text);
    text = normalized;
  }
  if (!added_tokens_.has_normalized()) {
    encode_normalized(text, at_start, encoding);
    return;
  }
  std::vector<LiteralRange> allowed;
  if (literal) allowed.push_back({0, text.size()});
  for (const Stretch& stretch : added_tokens_.cut(text, /*normalized=*/true, allowed)) {
    if (stretch.token != nullptr) {
      encoding->ids->push_back(stretch.token->id);
    } else {
      encode_normalized(text.substr(stretch.begin, stretch.end - stretch.begin),
                        at_start && stretch.begin == 0, encoding);
    }
  }
}

void Tokenizer::encode_normalized(std::string_view text, bool at_start, Encoding* encoding) const {
  if (alphabet_ == kCharacters) {
    encode_characters(text, at_start, encoding);
  } else {
    encode_split(text, 0, encoding);
  }
}

void Tokenizer::encode_split(std::string_view text, size_t step, Encoding* encoding) const {
  if (step == splitters_.size()) {
    encode_word(text, encoding);
    return;
  }
  splitters_[step].split(text,
                         [&](std::string_view piece) { encode_split(piece, step + 1, encoding); });
}

void Tokenizer::encode_word(std::string_view word, Encoding* encoding) const {
  if (has_words_) {
    const auto bytes_of = [this](uint32_t id) { return token_bytes(static_cast<int32_t>(id)); };
    const uint32_t id = words_.find(word, bytes_of);
    if (id != WordTable::kNone) {
      encoding->ids->push_back(static_cast<int32_t>(id));
      return;
    }
  }
  for (const char c : word) {
    const int32_t symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (symbol >= 0) encoding->symbols.push_back(static_cast<uint32_t>(symbol));
  }
  flush(encoding);
}

void Tokenizer::encode_characters(std::string_view text, bool at_start, Encoding* encoding) const {
  const auto is_space = [](uint32_t point) { return point == kSpace || point == kEscapedSpace; };
  bool after_word = false;
  for (size_t position = 0; position < text.size();) {
    const bool first = position == 0;
    const uint32_t point = next_code_point(text, &position);
    if (first && (space_prefix_ == kEverySegment || (space_prefix_ == kTextStart && at_start)) &&
        !(space_prefix_unless_space_ && is_space(point))) {
      append_character(kSpace, &encoding->symbols);
    }
    if (words_begin_at_spaces_ && after_word && is_space(point)) flush(encoding);
    append_character(point, &encoding->symbols);
    after_word = !is_space(point);
  }
  flush(encoding);
}

void Tokenizer::append_character(uint32_t point, std::vector<uint32_t>* symbols) const {
  size_t begin = 0;
  for (size_t count = characters_.size(); count > 0;) {
    const size_t half = count / 2;
    if (characters_[begin + half] < point) {
      begin += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  if (begin < characters_.size() && characters_[begin] == point) {
    symbols->push_back(character_symbols_[begin]);
    return;
  }
  std::string bytes;
  append_utf8(point, &bytes);
  for (const char c : bytes) {
    const int32_t symbol = byte_symbols_[static_cast<uint8_t>(c)];
    if (symbol >= 0) symbols->push_back(static_cast<uint32_t>(symbol));
  }
}

void Tokenizer::flush(Encoding* encoding) const {
  encoding->merger.merge(&encoding->symbols);
  for (const uint32_t symbol : encoding->symbols) {
    if (symbol < token_ends_.size()) {
      encoding->ids->push_back(static_cast<int32_t>(symbol));
      continue;
    }
    // A character that is only part of tokens: use its bytes.
    const size_t place = symbol - token_ends_.size();
    if (place >= characters_.size()) continue;
    std::string bytes;
    append_utf8(characters_[place], &bytes);
    for (const char c : bytes) {
      const int32_t id = byte_symbols_[static_cast<uint8_t>(c)];
      if (id >= 0) encoding->ids->push_back(id);
    }
  }
  encoding->symbols.clear();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const auto index = static_cast<size_t>(id);
  const uint32_t begin = index == 0 ? 0 : token_ends_[index - 1];
  return {reinterpret_cast<const char*>(token_bytes_.bytes()) + begin, token_ends_[index] - begin};
}

std::string_view Tokenizer::decode_token(int32_t previous, int32_t id) const {
  std::string_view bytes = token_bytes(id);
  const bool at_start = previous < 0 || previous == bos_id_;
  const bool is_byte = id == byte_symbols_[kSpace];
  if (strips_first_space_ && at_start && !is_byte && !bytes.empty() && bytes[0] == ' ') {
    bytes.remove_prefix(1);
  }
  return bytes;
}

}  // namespace thimble
