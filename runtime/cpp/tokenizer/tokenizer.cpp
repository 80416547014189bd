#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 2;
constexpr size_t kMaxSteps = 64;

enum Field {
  kVersionField,
  kVocabSize,
  kBosId,
  kAddsBos,
  kEosIds,
  kDecoder,
  kAddedTokens,
  kWordBlocks,
  kWordCharacters,
  kNormalizers,
  kPreTokenizers,
  kBpe,
  kUnigram,
  kWordPiece,
  kWordLevel,
};

Status damaged(const std::string& what) {
  return Status::error("the compiled tokenizer is damaged (" + what + "): export the model again");
}

Status load_steps(const FlatbufferTables& tables, bool may_split, std::vector<Step>* steps) {
  if (tables.size() > kMaxSteps) return Status::error("it has too many steps");
  steps->reserve(tables.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    Result<Step> step = Step::load(tables[i]);
    if (!step.ok()) return step.status();
    if (step->splits() && !may_split) return Status::error("one of its steps is out of place");
    steps->push_back(*step);
  }
  return {};
}

}  // namespace

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
  Result<Decoder> decoder = Decoder::load(table.table(kDecoder));
  if (!decoder.ok()) return damaged(decoder.message());
  tokenizer.decoder_ = *decoder;
  Status status = tokenizer.load_ids(table);
  if (status.ok()) {
    status = load_steps(table.tables(kNormalizers), /*may_split=*/false, &tokenizer.normalizers_);
  }
  if (status.ok()) {
    status =
        load_steps(table.tables(kPreTokenizers), /*may_split=*/true, &tokenizer.pre_tokenizers_);
  }
  if (status.ok()) status = tokenizer.load_model(table);
  if (!status.ok()) return damaged(status.message());
  return tokenizer;
}

Status Tokenizer::load_ids(const FlatbufferTable& table) {
  if (static_cast<uint32_t>(vocab_size()) != table.scalar<uint32_t>(kVocabSize)) {
    return Status::error("its tokens are not as many as its vocabulary");
  }
  const auto is_token = [this](int32_t id) { return id >= 0 && id < vocab_size(); };
  bos_id_ = table.scalar<int32_t>(kBosId, -1);
  if (bos_id_ != -1 && !is_token(bos_id_)) return Status::error("its BOS is not a token");
  adds_bos_ = table.scalar<uint8_t>(kAddsBos) != 0 && bos_id_ >= 0;
  const auto eos_ids = table.vector<int32_t>(kEosIds);
  for (size_t i = 0; i < eos_ids.size(); ++i) {
    if (!is_token(eos_ids[i])) return Status::error("one of its end tokens is not a token");
    eos_ids_.push_back(eos_ids[i]);
  }
  CodePointMap word_characters;
  const bool knows_words = table.has(kWordBlocks);
  if (knows_words) {
    Result<CodePointMap> map = CodePointMap::load(table.vector<uint16_t>(kWordBlocks),
                                                  table.vector<uint8_t>(kWordCharacters));
    if (!map.ok()) return map.status();
    word_characters = *map;
  }
  Result<AddedTokens> added = AddedTokens::load(table.tables(kAddedTokens), vocab_size(),
                                                knows_words ? &word_characters : nullptr);
  if (!added.ok()) return added.status();
  added_tokens_ = std::move(*added);
  return {};
}

Status Tokenizer::load_model(const FlatbufferTable& table) {
  const auto keep = [this](auto model) -> Status {
    if (!model.ok()) return model.status();
    model_ = std::move(*model);
    return {};
  };
  if (table.has(kBpe)) return keep(BpeModel::load(table.table(kBpe), decoder_.texts()));
  if (table.has(kUnigram)) return keep(Unigram::load(table.table(kUnigram), vocab_size()));
  if (table.has(kWordPiece)) return keep(WordPiece::load(table.table(kWordPiece), vocab_size()));
  if (table.has(kWordLevel))
    return keep(WordLevel::load(table.table(kWordLevel), decoder_.texts()));
  return Status::error("it has no model");
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
  Encoding encoding{ids, {}, {}};
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
  std::string changed;
  for (const Step& step : normalizers_) {
    if (!step.transform(text, &at_start, &changed)) continue;
    normalized.swap(changed);
    text = normalized;
  }
  encoding->after_unknown = false;
  if (!added_tokens_.has_normalized()) {
    if (!text.empty()) encode_piece(text, at_start, 0, encoding);
    return;
  }
  std::vector<LiteralRange> allowed;
  if (literal) allowed.push_back({0, text.size()});
  for (const Stretch& stretch : added_tokens_.cut(text, /*normalized=*/true, allowed)) {
    if (stretch.token != nullptr) {
      encoding->ids->push_back(stretch.token->id);
      encoding->after_unknown = false;
    } else {
      encode_piece(text.substr(stretch.begin, stretch.end - stretch.begin),
                   at_start && stretch.begin == 0, 0, encoding);
    }
  }
}

void Tokenizer::encode_piece(std::string_view text, bool at_start, size_t step,
                             Encoding* encoding) const {
  for (; step < pre_tokenizers_.size() && !pre_tokenizers_[step].splits(); ++step) {
    std::string changed;
    if (!pre_tokenizers_[step].transform(text, &at_start, &changed)) continue;
    if (!changed.empty()) encode_piece(changed, at_start, step + 1, encoding);
    return;
  }
  if (step == pre_tokenizers_.size()) {
    std::visit([&](const auto& model) { model.encode(text, encoding); }, model_);
    return;
  }
  pre_tokenizers_[step].split(text, [&](size_t begin, size_t end) {
    encode_piece(text.substr(begin, end - begin), at_start && begin == 0, step + 1, encoding);
  });
}

}  // namespace thimble
