#include "constraint/regex.h"

#include <string>
#include <utility>
#include <vector>

#include "constraint/regex_syntax.h"

namespace thimble {
namespace {

/// What is beside a part.
enum class Side {
  kEdge,    ///< the text's edge: an anchor matches
  kSearch,  ///< any text, or the edge if there is an anchor
  kInside,  ///< another part
};

class Builder {
 public:
  Builder(Grammar* grammar, const CharacterNode& character)
      : grammar_(grammar), character_(character) {}

  Result<Grammar::Node> build(const Regex& regex, Side left, Side right) {
    switch (regex.kind) {
      case Regex::Kind::kBegin:
        if (left == Side::kInside) return misplaced(regex, "^");
        return with_any(grammar_->empty(), Side::kEdge, right);
      case Regex::Kind::kEnd:
        if (right == Side::kInside) return misplaced(regex, "$");
        return with_any(grammar_->empty(), left, Side::kEdge);
      case Regex::Kind::kSequence:
        return build_sequence(regex, left, right);
      case Regex::Kind::kChoice: {
        std::vector<Grammar::Node> nodes;
        for (const Regex& part : regex.parts) {
          const Result<Grammar::Node> node = build(part, left, right);
          if (!node.ok()) return node;
          nodes.push_back(*node);
        }
        return grammar_->choice(std::move(nodes));
      }
      case Regex::Kind::kRepeat: {
        const Result<Grammar::Node> part = build(regex.parts[0], Side::kInside, Side::kInside);
        if (!part.ok()) return part;
        return with_any(grammar_->repeat(*part, regex.min, regex.max), left, right);
      }
      case Regex::Kind::kCharacter:
        return with_any(character_(regex.points), left, right);
    }
    return grammar_->nothing();
  }

 private:
  Result<Grammar::Node> build_sequence(const Regex& regex, Side left, Side right) {
    size_t begin = 0, end = regex.parts.size();
    while (begin < end && regex.parts[begin].kind == Regex::Kind::kBegin && left != Side::kInside) {
      left = Side::kEdge;
      ++begin;
    }
    while (begin < end && regex.parts[end - 1].kind == Regex::Kind::kEnd &&
           right != Side::kInside) {
      right = Side::kEdge;
      --end;
    }
    if (begin == end) return with_any(grammar_->empty(), left, right);
    std::vector<Grammar::Node> nodes;
    for (size_t i = begin; i < end; ++i) {
      const Result<Grammar::Node> node = build(regex.parts[i], i == begin ? left : Side::kInside,
                                               i + 1 == end ? right : Side::kInside);
      if (!node.ok()) return node;
      nodes.push_back(*node);
    }
    return grammar_->sequence(std::move(nodes));
  }

  Grammar::Node with_any(Grammar::Node node, Side left, Side right) {
    std::vector<Grammar::Node> nodes;
    if (left == Side::kSearch) nodes.push_back(any_text());
    nodes.push_back(node);
    if (right == Side::kSearch) nodes.push_back(any_text());
    return grammar_->sequence(std::move(nodes));
  }

  Grammar::Node any_text() {
    return grammar_->repeat(character_(CodePoints::all()), 0, Grammar::kUnlimited);
  }

  static Status misplaced(const Regex& regex, const char* anchor) {
    return Status::error(
        std::string("the anchor ") + anchor + " at offset " + std::to_string(regex.offset) +
        " of the regular expression is not at its edge: only there it is supported");
  }

  Grammar* grammar_;
  const CharacterNode& character_;
};

}  // namespace

Result<Grammar::Node> regex_node(std::string_view regex, bool search, Grammar* grammar,
                                 const CharacterNode& character) {
  const Result<Regex> parsed = parse_regex_syntax(regex);
  if (!parsed.ok()) return parsed.status();
  const Side side = search ? Side::kSearch : Side::kEdge;
  return Builder(grammar, character).build(*parsed, side, side);
}

Result<Grammar::Node> parse_regex(std::string_view regex, Grammar* grammar) {
  return regex_node(regex, /*search=*/false, grammar,
                    [grammar](const CodePoints& points) { return utf8_node(grammar, points); });
}

}  // namespace thimble
