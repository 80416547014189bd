#include "constraint/gbnf.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "constraint/code_points.h"
#include "constraint/gbnf_characters.h"
#include "constraint/json.h"
#include "constraint/regex.h"
#include "constraint/schema.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr int kMaxDepth = 200;
constexpr uint64_t kMaxCount = 1'000'000'000;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class Parser {
 public:
  Parser(std::string_view text, const TokenNames& tokens, Grammar* grammar, SchemaReading* reading)
      : text_(text), tokens_(tokens), grammar_(grammar), reading_(reading) {}

  Result<Grammar::Node> parse() {
    if (with_valid_utf8(text_) != text_) return Status::error("the grammar is not UTF-8");
    skip_space(/*lines=*/true);
    while (at_ < text_.size()) {
      if (!parse_rule()) return error_;
      skip_space(/*lines=*/true);
    }
    for (const auto& [name, rule] : rules_) {
      if (rule.defined) continue;
      at_ = rule.first_use;
      (void)fail("the rule " + name + " is used here, but is nowhere defined");
      return error_;
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) {
      return Status::error("the grammar has no rule named root: it is where texts begin");
    }
    return grammar_->call(root->second.rule);
  }

 private:
  struct NamedRule {
    Grammar::Rule rule;
    bool defined;
    size_t first_use;
  };

  bool fail(const std::string& what) {
    const std::string_view before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    error_ = Status::error("the grammar is not valid at line " + std::to_string(line) +
                           ", column " + std::to_string(before.size() - start + 1) + ": " + what);
    return false;
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void skip_space(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view parse_name() {
    const size_t begin = at_;
    while (is_name(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  NamedRule& named(std::string_view name, size_t at) {
    const auto [place, is_new] = rules_.try_emplace(std::string(name), NamedRule{0, false, at});
    if (is_new) place->second.rule = grammar_->add_rule(std::string(name));
    return place->second;
  }

  bool parse_rule() {
    const size_t begin = at_;
    const std::string_view name = parse_name();
    if (name.empty()) return fail("the name of a rule is missing");
    skip_space(/*lines=*/false);
    if (!take("::=")) return fail("::= is missing");
    if (named(name, begin).defined) {
      at_ = begin;
      return fail("the rule " + std::string(name) + " is defined twice");
    }
    skip_space(/*lines=*/true);
    rule_name_ = name;
    Grammar::Node node = 0;
    if (!parse_choice(&node, 0)) return false;
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r') {
      return fail(std::string("a rule cannot go on with '") + peek() + "'");
    }
    NamedRule& rule = named(name, begin);
    rule.defined = true;
    grammar_->define(rule.rule, node);
    return true;
  }

  bool parse_choice(Grammar::Node* node, int depth) {
    if (depth > kMaxDepth) {
      return fail("groups are nested in more than " + std::to_string(kMaxDepth) + " levels");
    }
    std::vector<Grammar::Node> choices;
    do {
      skip_space(/*lines=*/true);
      choices.emplace_back();
      if (!parse_sequence(&choices.back(), depth)) return false;
    } while (take("|"));
    *node = grammar_->choice(std::move(choices));
    return true;
  }

  bool parse_sequence(Grammar::Node* node, int depth) {
    std::vector<Grammar::Node> parts;
    while (true) {
      skip_space(/*lines=*/depth > 0);
      Grammar::Node part = 0;
      const char c = peek();
      if (c == '"') {
        std::string text;
        if (!parse_text(&text)) return false;
        part = grammar_->literal(text);
      } else if (c == '[') {
        if (!parse_class(&part)) return false;
      } else if (c == '(') {
        const size_t begin = at_++;
        if (!parse_choice(&part, depth + 1)) return false;
        if (!take(")")) {
          at_ = begin;
          return fail("a group is not closed");
        }
      } else if (c == '.') {
        ++at_;
        part = utf8_node(grammar_, CodePoints::all());
      } else if (is_name(c)) {
        const size_t begin = at_;
        part = grammar_->call(named(parse_name(), begin).rule);
      } else if (c == '<') {
        if (!parse_token(&part)) return false;
      } else if (take("%json")) {
        if (!parse_schema_of(&part)) return false;
      } else if (take("%regex")) {
        if (!parse_regex_of(&part)) return false;
      } else if (take("%gbnf")) {
        if (!parse_grammar_of(&part)) return false;
      } else if (c == '!') {
        return fail("! is not supported: name the tokens that may come");
      } else {
        break;
      }
      if (!parse_repetitions(&part, depth)) return false;
      parts.push_back(part);
    }
    *node = grammar_->sequence(std::move(parts));
    return true;
  }

  bool parse_repetitions(Grammar::Node* part, int depth) {
    while (true) {
      skip_space(/*lines=*/depth > 0);
      uint64_t min = 0, max = Grammar::kUnlimited;
      if (take("+")) {
        min = 1;
      } else if (take("?")) {
        max = 1;
      } else if (take("{")) {
        if (!parse_bounds(&min, &max)) return false;
      } else if (!take("*")) {
        return true;
      }
      *part = grammar_->repeat(*part, min, max);
    }
  }

  bool parse_bounds(uint64_t* min, uint64_t* max) {
    skip_space(/*lines=*/false);
    if (peek() != ',' && !parse_count(min)) return false;
    skip_space(/*lines=*/false);
    if (take(",")) {
      skip_space(/*lines=*/false);
      if (peek() != '}' && !parse_count(max)) return false;
    } else {
      *max = *min;
    }
    skip_space(/*lines=*/false);
    if (!take("}")) return fail("a } is missing");
    return *min <= *max || fail("the bounds of a repetition are in the wrong order");
  }

  bool parse_count(uint64_t* count) {
    if (peek() < '0' || peek() > '9') return fail("a number is missing");
    for (*count = 0; peek() >= '0' && peek() <= '9'; ++at_) {
      *count = *count * 10 + static_cast<uint64_t>(peek() - '0');
      if (*count > kMaxCount) {
        return fail("a number is more than " + std::to_string(kMaxCount));
      }
    }
    return true;
  }

  /// A token by its name, <|eot_id|> or <"any name">, or by its id, <[128010]>.
  bool parse_token(Grammar::Node* node) {
    const size_t begin = at_++;
    const TokenNames::Token* token = nullptr;
    std::string token_name;
    if (peek() == '[') {
      ++at_;
      uint64_t id = 0;
      if (!parse_count(&id)) return false;
      if (!take("]>")) return fail("]> is missing");
      token = tokens_.find(static_cast<int32_t>(id));
      token_name = "with the id " + std::to_string(id);
    } else if (peek() == '"') {
      std::string name;
      if (!parse_text(&name)) return false;
      if (!take(">")) return fail("> is missing");
      token = tokens_.find(name);
      token_name = quoted_json(name);
    } else {
      const size_t end = text_.find_first_of(">\r\n", at_);
      if (end == text_.npos || text_[end] != '>') {
        at_ = begin;
        return fail("a token is not closed");
      }
      at_ = end + 1;
      token_name = text_.substr(begin, at_ - begin);
      token = tokens_.find(token_name);
    }
    if (token == nullptr) {
      at_ = begin;
      return fail("the model has no special or added token " + token_name);
    }
    *node = grammar_->literal(token->bytes);
    return true;
  }

  bool parse_schema_of(Grammar::Node* node) {
    skip_space(/*lines=*/true);
    const Result<Json> schema = parse_json_within(text_, &at_);
    if (!schema.ok()) {
      error_ = Status::error("the rule " + rule_name_ +
                             " has a JSON schema that cannot be read: " + schema.message());
      return false;
    }
    const auto [place, is_new] = schemas_.try_emplace(to_text(*schema));
    if (is_new) {
      SchemaReading own{reading_->relax, {}};
      const Result<Grammar::Node> compiled = schema_node(*schema, tokens_, grammar_, &own);
      if (!take_within(compiled, own, &place->second)) return false;
    }
    *node = place->second;
    return true;
  }

  /// The regular expression in the quotes behind %regex.
  bool parse_regex_of(Grammar::Node* node) {
    std::string text;
    return parse_text_behind("%regex", &text) &&
           take_within(parse_regex(text, grammar_), SchemaReading{}, node);
  }

  /// The grammar in the quotes behind %gbnf, which has rules of its own.
  bool parse_grammar_of(Grammar::Node* node) {
    std::string text;
    if (!parse_text_behind("%gbnf", &text)) return false;
    SchemaReading own{reading_->relax, {}};
    const Result<Grammar::Node> parsed = parse_gbnf(text, tokens_, grammar_, &own);
    return take_within(parsed, own, node);
  }

  bool parse_text_behind(const std::string& word, std::string* text) {
    skip_space(/*lines=*/true);
    return peek() == '"' ? parse_text(text) : fail("a text in quotes must follow " + word);
  }

  /// Takes what stands within the rule that is parsed, and what is to be told of it.
  bool take_within(const Result<Grammar::Node>& parsed, const SchemaReading& own,
                   Grammar::Node* node) {
    const std::string rule = "the rule " + rule_name_ + ": ";
    if (!parsed.ok()) {
      error_ = Status::error(rule + parsed.message());
      return false;
    }
    *node = grammar_->shared(*parsed);
    for (const std::string& note : own.notes) reading_->note(rule + note);
    for (const std::string& what : own.left_out) reading_->left_out.push_back(rule + what);
    return true;
  }

  /// A text in quotes.
  bool parse_text(std::string* text) {
    const size_t begin = at_++;
    while (peek() != '"') {
      uint32_t point = 0;
      if (at_ >= text_.size()) {
        at_ = begin;
        return fail("a text is not closed");
      }
      if (!parse_character(&point)) return false;
      append_utf8(point, text);
    }
    ++at_;
    return true;
  }

  bool parse_class(Grammar::Node* node) {
    const size_t begin = at_++;
    const bool negated = take("^");
    std::vector<CodePoints::Range> ranges;
    while (peek() != ']') {
      uint32_t first = 0;
      if (at_ >= text_.size()) {
        at_ = begin;
        return fail("a class is not closed");
      }
      if (!parse_character(&first)) return false;
      uint32_t last = first;
      if (peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        if (!parse_character(&last)) return false;
        if (last < first) return fail("a range of characters is in the wrong order");
      }
      ranges.push_back({first, last});
    }
    ++at_;
    CodePoints points;
    points.add(ranges);
    *node = utf8_node(grammar_, negated ? points.complement() : points);
    return true;
  }

  bool parse_character(uint32_t* point) {
    const std::string fault = next_gbnf_character(text_, &at_, point);
    return fault.empty() || fail(fault);
  }

  std::string_view text_;
  const TokenNames& tokens_;
  Grammar* grammar_;
  SchemaReading* reading_;
  size_t at_ = 0;
  std::map<std::string, NamedRule> rules_;
  std::string rule_name_;                         ///< the one that is parsed
  std::map<std::string, Grammar::Node> schemas_;  ///< by their texts
  Status error_;
};

}  // namespace

Result<Grammar::Node> parse_gbnf(std::string_view text, const TokenNames& tokens, Grammar* grammar,
                                 SchemaReading* reading) {
  return Parser(text, tokens, grammar, reading).parse();
}

}  // namespace thimble
