#include "constraint/grammar.h"

#include <algorithm>
#include <utility>

#include "constraint/counted_text.h"

namespace thimble {
namespace {

constexpr uint64_t kMostInline = 64;  // instructions of a repetition that is written out
constexpr uint64_t kSmall = 16;       // instructions that need no rule of their own
constexpr int kMaxLevels = 64;        // of a tree of literals
constexpr uint64_t kHuge = uint64_t{1} << 40;

}  // namespace

ByteSet byte_range(uint8_t first, uint8_t last) {
  ByteSet set;
  for (size_t byte = first; byte <= last; ++byte) set.set(byte);
  return set;
}

Grammar::Grammar() {
  (void)add(NodeData(Kind::kSequence));
  (void)add(NodeData(Kind::kNothing));
}

Grammar::Node Grammar::add(NodeData data) {
  data.size = std::min(data.size, kHuge);
  nodes_.push_back(std::move(data));
  return static_cast<Node>(nodes_.size() - 1);
}

Grammar::Node Grammar::byte(const ByteSet& set) {
  if (set.none()) return nothing();
  auto place = std::find(sets_.begin(), sets_.end(), set);
  if (place == sets_.end()) place = sets_.insert(place, set);
  NodeData data(Kind::kByte);
  data.value = static_cast<uint32_t>(place - sets_.begin());
  data.size = 1;
  return add(std::move(data));
}

Grammar::Node Grammar::literal(std::string_view text) {
  if (text.empty()) return empty();
  NodeData data(Kind::kLiteral);
  data.size = text.size();
  data.text = text;
  return add(std::move(data));
}

Grammar::Node Grammar::literals(std::vector<std::string> texts) {
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return literal_tree(texts, 0, texts.size(), 0, 0);
}

/// Of sorted texts whose first `depth` bytes are equal, what follows those.
Grammar::Node Grammar::literal_tree(const std::vector<std::string>& texts, size_t begin, size_t end,
                                    size_t depth, int level) {
  if (begin == end) return nothing();
  const std::string &first = texts[begin], &last = texts[end - 1];
  size_t common = depth;
  while (common < first.size() && common < last.size() && first[common] == last[common]) ++common;
  const Node head = literal(std::string_view(first).substr(depth, common - depth));
  if (end - begin == 1) return head;
  std::vector<Node> tails;
  for (size_t at = begin; at < end;) {
    if (texts[at].size() == common) {
      tails.push_back(empty());
      ++at;
      continue;
    }
    size_t next = at + 1;
    const auto belongs = [&](size_t i) { return texts[i][common] == texts[at][common]; };
    while (next < end && level < kMaxLevels && belongs(next)) ++next;
    // A rule, so that long texts of many common beginnings are no deep tree of nodes.
    tails.push_back(next - at == 1 ? literal(std::string_view(texts[at]).substr(common))
                                   : shared(literal_tree(texts, at, next, common, level + 1)));
    at = next;
  }
  return sequence({head, choice(std::move(tails))});
}

Grammar::Node Grammar::sequence(std::vector<Node> nodes) {
  NodeData data(Kind::kSequence);
  for (const Node node : nodes) {
    if (node == nothing()) return nothing();
    if (node == empty()) continue;
    data.size += nodes_[node].size;
    data.nodes.push_back(node);
  }
  if (data.nodes.empty()) return empty();
  if (data.nodes.size() == 1) return data.nodes[0];
  return add(std::move(data));
}

Grammar::Node Grammar::choice(std::vector<Node> nodes) {
  NodeData data(Kind::kChoice);
  for (const Node node : nodes) {
    if (node == nothing()) continue;
    data.size += nodes_[node].size + 1;
    data.nodes.push_back(node);
  }
  if (data.nodes.empty()) return nothing();
  if (data.nodes.size() == 1) return data.nodes[0];
  return add(std::move(data));
}

Grammar::Node Grammar::repeat_inline(Node node, uint64_t min, uint64_t max) {
  NodeData data(Kind::kRepeat);
  data.min = static_cast<uint32_t>(min);
  data.unlimited = max == kUnlimited;
  data.max = data.unlimited ? 0 : static_cast<uint32_t>(max);
  const uint64_t times = data.unlimited ? min + 1 : max;
  data.size = times * (nodes_[node].size + 1);
  data.nodes = {node};
  return add(std::move(data));
}

Grammar::Node Grammar::repeat(Node node, uint64_t min, uint64_t max) {
  if (min > max) return nothing();
  if (max == 0 || node == empty()) return empty();
  if (node == nothing()) return min == 0 ? empty() : nothing();
  if (max > kMostCount) max = kUnlimited;
  min = std::min(min, kMostCount);
  const uint64_t size = nodes_[node].size + 1;
  const uint64_t most = std::max<uint64_t>(min, max == kUnlimited ? 1 : max);
  if (most <= kMostInline / size || most == 1) return repeat_inline(node, min, max);
  if (max == kUnlimited) {
    node = shared(node);
    return sequence({repeat(node, min, min), repeat_inline(node, 0, kUnlimited)});
  }
  NodeData data(Kind::kCounted);
  data.value = rule_of(node);
  data.min = static_cast<uint32_t>(min);
  data.max = static_cast<uint32_t>(max);
  data.size = 2;
  return add(std::move(data));
}

Grammar::Node Grammar::counted_text(std::shared_ptr<const CountedText> text) {
  if (text->empty()) return nothing();
  NodeData data(Kind::kText);
  data.value = static_cast<uint32_t>(texts_.size());
  data.size = 3;
  texts_.push_back(std::move(text));
  return add(std::move(data));
}

/// A rule of a node.
Grammar::Rule Grammar::rule_of(Node node) {
  if (nodes_[node].kind == Kind::kCall) return nodes_[node].value;
  const Rule rule = add_rule("repetition");
  define(rule, node);
  return rule;
}

Grammar::Rule Grammar::add_rule(std::string name) {
  rules_.push_back({std::move(name), nothing()});
  return static_cast<Rule>(rules_.size() - 1);
}

Grammar::Node Grammar::call(Rule rule) {
  NodeData data(Kind::kCall);
  data.value = rule;
  data.size = 1;
  return add(std::move(data));
}

Grammar::Node Grammar::shared(Node node) {
  if (nodes_[node].size <= kSmall) return node;
  const Rule rule = add_rule("part");
  define(rule, node);
  return call(rule);
}

}  // namespace thimble
