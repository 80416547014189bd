#include "tokenizer/unigram.h"

#include <algorithm>
#include <vector>

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field { kTrie, kScores, kUnknownId, kUnknownScore, kByteSymbols, kSinglePrecision };

}  // namespace

Result<Unigram> Unigram::load(const FlatbufferTable& table, int32_t vocab_size) {
  Unigram model;
  model.trie_ = Trie(table.table(kTrie));
  model.scores_ = table.vector<double>(kScores);
  if (model.scores_.size() > static_cast<size_t>(vocab_size)) {
    return Status::error("it has more scores than tokens");
  }
  model.unknown_id_ = table.scalar<int32_t>(kUnknownId, -1);
  if (model.unknown_id_ >= vocab_size) return Status::error("its unknown token is none");
  model.unknown_score_ = table.scalar<double>(kUnknownScore);
  Result<ByteTokens> bytes = ByteTokens::load(table.vector<int32_t>(kByteSymbols), vocab_size);
  if (!bytes.ok()) return bytes.status();
  model.byte_tokens_ = *bytes;
  model.single_precision_ = table.scalar<uint8_t>(kSinglePrecision) != 0;
  return model;
}

void Unigram::encode(std::string_view word, Encoding* encoding) const {
  if (single_precision_) {
    solve<float>(word, encoding);
  } else {
    solve<double>(word, encoding);
  }
}

template <typename Score>
void Unigram::solve(std::string_view word, Encoding* encoding) const {
  std::vector<Node<Score>> nodes(word.size() + 1);
  const auto offer = [&nodes](size_t begin, size_t end, int32_t id, Score candidate) {
    Node<Score>& node = nodes[end];
    if (node.begin < 0 || candidate > node.score) {
      node = {static_cast<int64_t>(begin), id, candidate};
    }
  };
  for (size_t begin = 0; begin < word.size();) {
    const Score score = nodes[begin].score;
    size_t next = begin;
    next_code_point(word, &next);
    bool has_single = false;
    uint32_t place = Trie::kRoot;
    for (size_t end = begin; end < word.size();) {
      place = trie_.child(place, static_cast<uint8_t>(word[end++]));
      if (place == Trie::kNone) break;
      const uint32_t id = trie_.value(place);
      if (id >= scores_.size()) continue;
      offer(begin, end, static_cast<int32_t>(id), static_cast<Score>(scores_[id]) + score);
      has_single = has_single || end == next;
    }
    if (!has_single) {
      offer(begin, next, unknown_id_, static_cast<Score>(unknown_score_) + score);
    }
    begin = next;
  }
  // From the end to the start: stretches [begin, end), the unknown ones joined.
  struct Stretch {
    size_t begin;
    size_t end;
    int32_t id;
  };
  std::vector<Stretch> stretches;
  for (size_t end = word.size(); end > 0;) {
    const Node<Score>& node = nodes[end];
    const auto begin = static_cast<size_t>(std::max<int64_t>(node.begin, 0));
    if (node.id == unknown_id_ && !stretches.empty() && stretches.back().id == unknown_id_) {
      stretches.back().begin = begin;
    } else {
      stretches.push_back({begin, end, node.id});
    }
    end = begin;
  }
  for (auto stretch = stretches.rbegin(); stretch != stretches.rend(); ++stretch) {
    if (stretch->id == unknown_id_) {
      append_unknown(word.substr(stretch->begin, stretch->end - stretch->begin), encoding);
    } else {
      encoding->ids->push_back(stretch->id);
    }
  }
}

void Unigram::append_unknown(std::string_view text, Encoding* encoding) const {
  const uint32_t known = trie_.value(trie_.descend(Trie::kRoot, text));
  if (known < scores_.size()) {
    encoding->ids->push_back(static_cast<int32_t>(known));
  } else if (!byte_tokens_.append(text, encoding->ids) && unknown_id_ >= 0) {
    encoding->ids->push_back(unknown_id_);
  }
}

}  // namespace thimble
