#include "constraint/regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/intersection.h"
#include "constraint/regex_syntax.h"
#include "constraint/word_boundaries.h"

namespace thimble {
namespace {

/// What is beside a part.
enum class Side {
  kEdge,    ///< the text's edge: an anchor matches
  kSearch,  ///< any text, or the edge if there is an anchor
  kInside,  ///< another part
};

/// The texts of a node of `own` with marks for boundaries, where these are.
Result<Grammar::Node> texts_at_boundaries(const Grammar& own, Grammar::Node marked,
                                          const CharacterNode& character, Grammar* grammar) {
  const auto refused = [](const Status& status) {
    return Status::error("the regular expression, which has \\b or \\B, " + status.message() +
                         ": simplify it");
  };
  Result<std::optional<Program>> texts = compile_texts(own, marked);
  if (!texts.ok()) return refused(texts.status());
  if (!texts->has_value()) return grammar->nothing();
  const Result<Grammar::Node> node = hold_boundaries(std::move(**texts), character, grammar);
  return node.ok() ? node : refused(node.status());
}

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
        if (!part.ok() && regex.max == 1) return build_once(regex, left, right);
        if (!part.ok()) return part;
        // Beside any text, what comes more often than it must is such text.
        const bool in_any = left == Side::kSearch || right == Side::kSearch;
        const uint64_t most = in_any ? regex.min : regex.max;
        return with_any(grammar_->repeat(*part, regex.min, most), left, right);
      }
      case Regex::Kind::kCharacter:
        return with_any(character_(grammar_, regex.points), left, right);
      case Regex::Kind::kBoundary: {
        const char mark = regex.negated ? kNoBoundaryMark : kBoundaryMark;
        return with_any(grammar_->literal(std::string_view(&mark, 1)), left, right);
      }
      case Regex::Kind::kLookahead:
        break;  // build_range() takes it
    }
    return grammar_->nothing();
  }

  /// The texts of a node with marks for boundaries, where these are.
  Result<Grammar::Node> without_marks(Grammar::Node marked) {
    return texts_at_boundaries(*grammar_, marked, character_, grammar_);
  }

 private:
  /// What comes once or not at all, whose anchors and lookaheads stand where itself does.
  Result<Grammar::Node> build_once(const Regex& regex, Side left, Side right) {
    const Result<Grammar::Node> once = build(regex.parts[0], left, right);
    if (!once.ok() || regex.min == 1) return once;
    return grammar_->choice({*once, with_any(grammar_->empty(), left, right)});
  }

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
    return build_range(regex.parts, begin, end, left, right);
  }

  Result<Grammar::Node> build_range(const std::vector<Regex>& parts, size_t begin, size_t end,
                                    Side left, Side right) {
    if (begin == end) return with_any(grammar_->empty(), left, right);
    std::vector<Grammar::Node> nodes;
    for (size_t i = begin; i < end; ++i) {
      const Side before = i == begin ? left : Side::kInside;
      if (parts[i].kind == Regex::Kind::kLookahead) {
        if (before == Side::kSearch) nodes.push_back(any_text());
        const Result<Grammar::Node> rest =
            build_lookaheads(parts, i, end, before == Side::kEdge ? before : Side::kInside, right);
        if (!rest.ok()) return rest;
        nodes.push_back(*rest);
        break;
      }
      const Result<Grammar::Node> node =
          build(parts[i], before, i + 1 == end ? right : Side::kInside);
      if (!node.ok()) return node;
      nodes.push_back(*node);
    }
    return grammar_->sequence(std::move(nodes));
  }

  /// What begins with lookaheads: its texts are those of all of them, and of what is behind them.
  Result<Grammar::Node> build_lookaheads(const std::vector<Regex>& parts, size_t begin, size_t end,
                                         Side left, Side right) {
    const std::string place = "the lookahead at offset " + std::to_string(parts[begin].offset) +
                              " of the regular expression ";
    if (right == Side::kInside) {
      return Status::error(place +
                           "is within a group that is repeated, or that more follows: only "
                           "at the end of the expression it is supported");
    }
    std::vector<AutomatonPart> all;
    bool is_empty = false;
    const auto add = [&](const std::vector<Regex>& ahead, size_t first, size_t last, bool negated,
                         Side behind) -> Status {
      bool has_boundary = false;
      for (size_t i = first; i < last; ++i) has_boundary = has_boundary || ahead[i].has_boundary;
      if (has_boundary && left != Side::kEdge) {
        return Status::error(place + "stands beside \\b or \\B: only behind ^ that is supported");
      }
      Grammar own;
      Builder builder(&own, character_);
      Result<Grammar::Node> node = builder.build_range(ahead, first, last, left, behind);
      if (node.ok() && has_boundary) node = builder.without_marks(*node);
      if (!node.ok()) return node.status();
      Result<std::optional<Program>> texts = compile_texts(own, *node);
      if (!texts.ok()) return Status::error(place + texts.message() + ": simplify it");
      is_empty = is_empty || (!texts->has_value() && !negated);
      if (texts->has_value()) all.push_back({std::move(**texts), negated});
      return {};
    };
    size_t rest = begin;
    for (; rest < end && parts[rest].kind == Regex::Kind::kLookahead; ++rest) {
      const Status added = add(parts[rest].parts, 0, 1, parts[rest].negated, Side::kSearch);
      if (!added.ok()) return added;
    }
    const Status added = add(parts, rest, end, /*negated=*/false, right);
    if (!added.ok()) return added;
    if (is_empty) return grammar_->nothing();
    const Result<Grammar::Node> node = difference(std::move(all), grammar_);
    return node.ok() ? node : Status::error(place + node.message() + ": simplify it");
  }

  Grammar::Node with_any(Grammar::Node node, Side left, Side right) {
    std::vector<Grammar::Node> nodes;
    if (left == Side::kSearch) nodes.push_back(any_text());
    nodes.push_back(node);
    if (right == Side::kSearch) nodes.push_back(any_text());
    return grammar_->sequence(std::move(nodes));
  }

  Grammar::Node any_text() {
    return grammar_->repeat(character_(grammar_, CodePoints::all()), 0, Grammar::kUnlimited);
  }

  static Status misplaced(const Regex& regex, const char* anchor) {
    return Status::error(
        std::string("the anchor ") + anchor + " at offset " + std::to_string(regex.offset) +
        " of the regular expression is not at its edge: only there it is supported");
  }

  Grammar* grammar_;
  const CharacterNode& character_;
};

uint64_t sum(uint64_t a, uint64_t b) {
  return a > Grammar::kUnlimited - b ? Grammar::kUnlimited : a + b;
}

uint64_t product(uint64_t a, uint64_t b) {
  return b != 0 && a > Grammar::kUnlimited / b ? Grammar::kUnlimited : a * b;
}

LengthRange lengths_of(const Regex& regex) {
  LengthRange all{0, 0};
  switch (regex.kind) {
    case Regex::Kind::kCharacter:
      return {1, 1};
    case Regex::Kind::kSequence:
      for (const Regex& part : regex.parts) {
        const LengthRange own = lengths_of(part);
        all = {sum(all.min, own.min), sum(all.max, own.max)};
      }
      return all;
    case Regex::Kind::kChoice:
      all.min = Grammar::kUnlimited;
      for (const Regex& part : regex.parts) {
        const LengthRange own = lengths_of(part);
        all = {std::min(all.min, own.min), std::max(all.max, own.max)};
      }
      return all;
    case Regex::Kind::kRepeat:
      all = lengths_of(regex.parts[0]);
      return {product(all.min, regex.min), product(all.max, regex.max)};
    default:
      return all;
  }
}

}  // namespace

Result<LengthRange> regex_lengths(std::string_view regex, bool search) {
  const Result<Regex> parsed = parse_regex_syntax(regex);
  if (!parsed.ok()) return parsed.status();
  LengthRange range = lengths_of(*parsed);
  const std::vector<Regex>& parts = parsed->parts;
  const bool anchored = parsed->kind == Regex::Kind::kSequence && !parts.empty() &&
                        parts.front().kind == Regex::Kind::kBegin &&
                        parts.back().kind == Regex::Kind::kEnd;
  if (search && !anchored) range.max = Grammar::kUnlimited;
  return range;
}

Result<Grammar::Node> regex_node(std::string_view regex, bool search, Grammar* grammar,
                                 const CharacterNode& character) {
  const Result<Regex> parsed = parse_regex_syntax(regex);
  if (!parsed.ok()) return parsed.status();
  const Side side = search ? Side::kSearch : Side::kEdge;
  if (!parsed->has_boundary) return Builder(grammar, character).build(*parsed, side, side);
  Grammar own;
  const Result<Grammar::Node> marked = Builder(&own, character).build(*parsed, side, side);
  if (!marked.ok()) return marked;
  return texts_at_boundaries(own, *marked, character, grammar);
}

Result<Grammar::Node> parse_regex(std::string_view regex, Grammar* grammar) {
  if (regex.empty()) {
    return Status::error("the regular expression is empty: give one, or leave it out");
  }
  return regex_node(regex, /*search=*/false, grammar, utf8_node);
}

}  // namespace thimble
