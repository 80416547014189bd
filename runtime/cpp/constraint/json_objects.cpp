// The members of an object, or of a call's arguments, in a grammar.

#include <algorithm>
#include <functional>
#include <utility>

#include "constraint/json_layout.h"

namespace thimble {
namespace {

using Node = Grammar::Node;

/// Members with `comma` between them, as they follow each other in an object.
class Members {
 public:
  Members(Grammar* grammar, Node comma, std::vector<Node> pairs, std::vector<bool> required,
          Node more)
      : grammar_(grammar),
        comma_(comma),
        pairs_(std::move(pairs)),
        required_(std::move(required)),
        more_(grammar->shared(more)) {}

  /// Any number of them.
  Node any_number(bool not_empty) {
    // Those from the first required one on always follow another, or are it.
    const size_t count = pairs_.size();
    size_t first_required = 0;
    while (first_required < count && !required_[first_required]) ++first_required;
    for (size_t i = 0; i < first_required; ++i) pairs_[i] = grammar_->shared(pairs_[i]);
    const Node more_rest = list(0, Grammar::kUnlimited);

    // What may follow the required ones: a sequence, each part with its comma.
    std::vector<Node> tail;
    for (size_t i = first_required; i < count; ++i) {
      const Node with_comma =
          i == first_required ? pairs_[i] : grammar_->sequence({comma_, pairs_[i]});
      tail.push_back(required_[i] ? with_comma : grammar_->optional(with_comma));
    }
    tail.push_back(more_rest);
    Node rest = grammar_->shared(grammar_->sequence(std::move(tail)));  // after a comma

    std::vector<Node> choices;  // by the member that is first
    if (first_required == count) {
      choices.push_back(not_empty ? grammar_->nothing() : grammar_->empty());
      choices.push_back(grammar_->sequence({more_, more_rest}));
    } else {
      choices.push_back(rest);
      rest = grammar_->sequence({comma_, rest});
    }
    for (size_t i = first_required; i-- > 0;) {
      choices.push_back(grammar_->sequence({pairs_[i], rest}));
      const Grammar::Rule rule = grammar_->add_rule("members");
      const Node with_comma = grammar_->sequence({comma_, pairs_[i]});
      grammar_->define(rule, grammar_->sequence({grammar_->optional(with_comma), rest}));
      rest = grammar_->call(rule);
    }
    return grammar_->choice(std::move(choices));
  }

  /// So many of them.
  Node counted(const Count& count) {
    for (Node& pair : pairs_) pair = grammar_->shared(pair);
    const bool unlimited = count.max == Grammar::kUnlimited;
    // From here on their numbers are alike.
    const uint64_t last = std::max<uint64_t>(unlimited ? count.min : count.max, 1);
    // A rule for each number of those before says what may follow; the first are those at the end.
    std::vector<Node> after;
    for (uint64_t n = 0; n <= last; ++n) {
      const uint64_t least = count.min > n ? count.min - n : 0;
      const uint64_t most = unlimited ? count.max : count.max - std::min(n, count.max);
      after.push_back(grammar_->shared(n > 0 ? list(least, most) : first_list(least, most)));
    }
    for (size_t i = pairs_.size(); i-- > 0;) {
      std::vector<Node> before;
      for (uint64_t n = 0; n <= last; ++n) {
        const bool full = !unlimited && n >= count.max;
        const Node next = after[std::min(n + 1, last)];
        const Node with = grammar_->sequence(
            {n > 0 ? comma_ : grammar_->empty(), pairs_[i], full ? grammar_->nothing() : next});
        const Grammar::Rule rule = grammar_->add_rule("members");
        grammar_->define(rule, required_[i] ? with : grammar_->choice({with, after[n]}));
        before.push_back(grammar_->call(rule));
      }
      after = std::move(before);
    }
    return after[0];
  }

 private:
  /// `least` to `most` more ones, each behind a comma.
  Node list(uint64_t least, uint64_t most) {
    if (more_ == grammar_->nothing()) return least > 0 ? more_ : grammar_->empty();
    return grammar_->repeat(grammar_->sequence({comma_, more_}), least, most);
  }

  /// The same, where the first has no comma.
  Node first_list(uint64_t least, uint64_t most) {
    if (most == 0) return least > 0 ? grammar_->nothing() : grammar_->empty();
    const uint64_t others = most == Grammar::kUnlimited ? most : most - 1;
    const Node some = grammar_->sequence({more_, list(least > 0 ? least - 1 : 0, others)});
    return least > 0 ? some : grammar_->optional(some);
  }

  Grammar* grammar_;
  Node comma_;
  std::vector<Node> pairs_;
  std::vector<bool> required_;
  Node more_;
};

Node members_node(Grammar* grammar, Node comma, const std::vector<JsonMember>& members,
                  const std::vector<JsonMember>& more, const Count& count,
                  const std::function<Node(const JsonMember&)>& pair) {
  std::vector<Node> pairs, more_pairs;
  std::vector<bool> required;
  for (const JsonMember& member : members) {
    pairs.push_back(pair(member));
    required.push_back(member.required);
  }
  for (const JsonMember& member : more) more_pairs.push_back(pair(member));
  const auto needed = static_cast<uint64_t>(std::count(required.begin(), required.end(), true));
  if (needed > count.max || count.min > count.max) return grammar->nothing();
  Members all(grammar, comma, std::move(pairs), std::move(required),
              grammar->choice(std::move(more_pairs)));
  const bool bounded =
      count.max != Grammar::kUnlimited && (!more.empty() || count.max < members.size());
  if (!bounded && count.min <= std::max<uint64_t>(needed, 1)) return all.any_number(count.min > 0);
  return all.counted(count);
}

}  // namespace

Node JsonLayout::pair(const JsonMember& member) {
  return grammar_->sequence({member.name, colon_, member.value});
}

Node JsonLayout::argument(const JsonMember& member) {
  return grammar_->sequence({grammar_->literal(arguments_->before_name), member.name,
                             grammar_->literal(arguments_->before_value), member.value,
                             grammar_->literal(arguments_->behind_value)});
}

Node JsonLayout::object(const std::vector<JsonMember>& members, const std::vector<JsonMember>& more,
                        const Count& count) {
  const Node content = members_node(grammar_, comma_, members, more, count,
                                    [this](const JsonMember& member) { return pair(member); });
  return grammar_->shared(enclosed("{", content, "}"));
}

Node JsonLayout::arguments(const std::vector<JsonMember>& members,
                           const std::vector<JsonMember>& more, const Count& count) {
  const Node between = grammar_->literal(arguments_->between);
  return members_node(grammar_, between, members, more, count,
                      [this](const JsonMember& member) { return argument(member); });
}

}  // namespace thimble
