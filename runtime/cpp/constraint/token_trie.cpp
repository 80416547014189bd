#include "constraint/token_trie.h"

#include <algorithm>

namespace thimble {

TokenTrie::TokenTrie(const std::vector<Token>& tokens) {
  std::vector<uint32_t> path;  // the nodes of the bytes of the token before
  std::string_view before;
  const auto leave = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes_[path.back()].end = static_cast<uint32_t>(nodes_.size());
    }
  };
  for (const auto& [bytes, id] : tokens) {
    const auto common = std::mismatch(before.begin(), before.end(), bytes.begin(), bytes.end());
    leave(static_cast<size_t>(common.first - before.begin()));
    for (size_t depth = path.size(); depth < bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, static_cast<uint8_t>(bytes[depth]),
                        static_cast<uint32_t>(tokens_.size()) & 0xFFFFFF});
    }
    tokens_.push_back(id);
    depth_ = std::max(depth_, bytes.size());
    before = bytes;
  }
  leave(0);
  nodes_.push_back({0, 0, static_cast<uint32_t>(tokens_.size()) & 0xFFFFFF});
}

void TokenTrie::walk(Recognizer& recognizer, Recognizer::State state, TokenMask* mask) const {
  struct Level {
    const Recognizer::State* row;
    Recognizer::State state;
    uint32_t end;
  };
  const std::array<uint8_t, 256>& symbol_of = recognizer.program().symbol_of;
  std::vector<Level> levels(depth_ + 1);
  const auto count = static_cast<uint32_t>(nodes_.size() - 1);
  Level* level = levels.data();
  *level = {recognizer.row(state), state, count};
  for (uint32_t at = 0; at < count;) {
    while (at == level->end) --level;
    const Node node = nodes_[at];
    const uint8_t symbol = symbol_of[node.byte];
    Recognizer::State next = level->row[symbol];
    if (next == Recognizer::kUnknown) next = recognizer.compute(level->state, symbol);
    if (next == Recognizer::kDead) {
      at = node.end;
      continue;
    }
    ++at;
    for (uint32_t i = node.first; i < nodes_[at].first; ++i) {
      mask->set(static_cast<size_t>(tokens_[i]));
    }
    if (node.end > at) *++level = {recognizer.row(next), next, node.end};
  }
}

}  // namespace thimble
