#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace thimble {

class CountedText;

using ByteSet = std::bitset<256>;

/// The bytes from `first` to `last`.
ByteSet byte_range(uint8_t first, uint8_t last);

/// A context-free grammar over bytes: what schemas, regular expressions, choices and GBNF become.
/// Expressions are nodes, which may be used in several places; rules have names and may refer to
/// each other.
class Grammar {
 public:
  using Node = uint32_t;
  using Rule = uint32_t;

  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  static constexpr uint64_t kMostCount = uint64_t{1} << 31;  ///< no text is so long

  Grammar();

  Node empty() const { return 0; }    ///< the empty text
  Node nothing() const { return 1; }  ///< no text at all
  Node byte(const ByteSet& set);      ///< one byte of a set
  Node literal(std::string_view text);
  /// One of many texts, as a tree in which common beginnings are shared.
  Node literals(std::vector<std::string> texts);
  Node sequence(std::vector<Node> nodes);
  Node choice(std::vector<Node> nodes);
  /// `min` to `max` times. What would be long written out becomes a rule that is counted.
  Node repeat(Node node, uint64_t min, uint64_t max);
  /// The texts of an automaton, counted.
  Node counted_text(std::shared_ptr<const CountedText> text);
  Node optional(Node node) { return choice({node, empty()}); }

  Rule add_rule(std::string name);
  void define(Rule rule, Node node) { rules_[rule].node = node; }
  Node call(Rule rule);
  /// The node for use in several places: a call of a rule of its own unless it is small.
  Node shared(Node node);

  enum class Kind : uint8_t {
    kLiteral,
    kByte,
    kSequence,
    kChoice,
    kRepeat,   ///< written out
    kCounted,  ///< calls of a rule that are counted, at most max
    kCall,
    kText,  ///< of texts()
    kNothing
  };

  struct NodeData {
    explicit NodeData(Kind kind) : kind(kind) {}

    Kind kind;
    uint32_t value = 0;  ///< kByte: of sets(); kText: of texts(); kCall, kCounted: the rule
    uint64_t size = 0;   ///< about as many instructions
    uint32_t min = 0;
    bool unlimited = false;  ///< kRepeat: has no end; else the most is max
    uint32_t max = 0;
    std::string text;  ///< kLiteral
    std::vector<Node> nodes;
  };
  struct RuleData {
    std::string name;
    Node node;
  };

  const NodeData& node(Node node) const { return nodes_[node]; }
  uint32_t node_count() const { return static_cast<uint32_t>(nodes_.size()); }
  const std::vector<ByteSet>& sets() const { return sets_; }
  const std::vector<RuleData>& rules() const { return rules_; }
  const std::vector<std::shared_ptr<const CountedText>>& texts() const { return texts_; }

 private:
  Node add(NodeData data);
  Rule rule_of(Node node);
  Node repeat_inline(Node node, uint64_t min, uint64_t max);
  Node literal_tree(const std::vector<std::string>& texts, size_t begin, size_t end, size_t depth,
                    int level);

  std::vector<NodeData> nodes_;
  std::vector<ByteSet> sets_;
  std::vector<RuleData> rules_;
  std::vector<std::shared_ptr<const CountedText>> texts_;
};

}  // namespace thimble
