#include "constraint/json_layout.h"

#include <bitset>
#include <utility>

#include "constraint/code_points.h"
#include "constraint/intersection.h"
#include "constraint/program.h"
#include "constraint/regex.h"

namespace thimble {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// The texts of a schema's separator, as far as they are the mark with white space.
Result<Grammar::Node> separator_node(const std::string& regex, const char* mark, Grammar* grammar) {
  std::vector<Program> programs;
  for (const std::string& each : {regex, "[ \\t\\n\\r]*" + std::string(mark) + "[ \\t\\n\\r]*"}) {
    Grammar own;
    const Result<Grammar::Node> node = regex_node(each, /*search=*/false, &own, utf8_node);
    if (!node.ok()) return node.status();
    Result<Program> program = compile_program(own, *node);
    if (!program.ok()) return program.status();
    programs.push_back(std::move(*program));
  }
  Grammar tried;
  const Result<Grammar::Node> both = intersection(programs, &tried);
  if (!both.ok() || !compile_program(tried, *both).ok()) {
    return Status::error("the JSON schema's x-guidance has the separator " + quoted_json(regex) +
                         ", which must match " + quoted_json(mark) +
                         " with white space before or behind it");
  }
  return intersection(std::move(programs), grammar);
}

}  // namespace

std::string python_word(const Json& value) {
  if (value.is(Json::Kind::kNull)) return "None";
  if (!value.is_boolean()) return "";
  return value.is(Json::Kind::kTrue) ? "True" : "False";
}

CodePoints name_letters() {
  CodePoints letters('0', '9');
  for (const auto& [low, high] : {std::pair{'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '.'}}) {
    letters.add(static_cast<uint32_t>(low), static_cast<uint32_t>(high));
  }
  return letters;
}

JsonLayout::JsonLayout(Grammar* grammar, const JsonSpacing& spacing)
    : grammar_(grammar),
      strings_(grammar, spacing.strings),
      names_(grammar, spacing.names),
      single_strings_(grammar, {"'", true, CodePoints::all(), /*inner_quotes=*/true}),
      single_names_(grammar, {"'", true, CodePoints::all()}),
      argument_names_(grammar, {"", false, name_letters()}),
      raw_(grammar, {"", false, CodePoints::all()}),
      arguments_(spacing.arguments) {}

Result<JsonLayout> JsonLayout::create(Grammar* grammar, const JsonSpacing& spacing) {
  JsonLayout layout(grammar, spacing);
  ByteSet white;
  for (const char c : {' ', '\n', '\r', '\t'}) white.set(static_cast<uint8_t>(c));
  if (spacing.flexible) {
    layout.space_ = grammar->repeat(grammar->byte(white), 0, Grammar::kUnlimited);
  }
  const Result<Grammar::Node> comma = separator_node(spacing.item_separator, ",", grammar);
  if (!comma.ok()) return comma.status();
  const Result<Grammar::Node> colon = separator_node(spacing.key_separator, ":", grammar);
  if (!colon.ok()) return colon.status();
  layout.comma_ = grammar->sequence({layout.space_, *comma, layout.space_});
  layout.colon_ = grammar->sequence({layout.space_, *colon, layout.space_});
  return layout;
}

Grammar::Node JsonLayout::enclosed(const char* open, Grammar::Node content, const char* close) {
  return grammar_->sequence(
      {grammar_->literal(open), space_, content, space_, grammar_->literal(close)});
}

Grammar::Node JsonLayout::any_boolean() { return grammar_->literals({"true", "false"}); }

Grammar::Node JsonLayout::any() {
  if (any_) return *any_;
  const Grammar::Rule rule = grammar_->add_rule("any JSON");
  any_ = grammar_->call(rule);
  const Result<Grammar::Node> number = parse_regex(kJsonNumber, grammar_);
  std::vector<std::string> words = {"null", "true", "false"};
  std::vector<JsonMember> members = {{names_.any_name(), *any_, false}};
  std::vector<Grammar::Node> choices = {*number, strings_.any()};
  if (has_python_words()) {
    for (const char* word : {"None", "True", "False"}) words.emplace_back(word);
  }
  if (has_python_values()) {
    members.push_back({single_names_.any_name(), *any_, false});
    choices.push_back(single_strings_.any());
  }
  choices.push_back(grammar_->literals(std::move(words)));
  choices.push_back(array({}, *any_, 0, Grammar::kUnlimited));
  choices.push_back(object({}, members));
  grammar_->define(rule, grammar_->choice(std::move(choices)));
  return *any_;
}

Grammar::Node JsonLayout::exactly(const Json& value) {
  if (value.is(Json::Kind::kArray)) {
    std::vector<Grammar::Node> items;
    for (const Json& item : value.values) items.push_back(exactly(item));
    const uint64_t count = items.size();
    return array(items, grammar_->nothing(), count, count);
  }
  if (value.is(Json::Kind::kObject)) {
    std::vector<JsonMember> members;
    for (size_t i = 0; i < value.keys.size(); ++i) {
      members.push_back(
          {grammar_->literals(name_texts(value.keys[i])), exactly(value.values[i]), true});
    }
    return object(members, {});
  }
  return grammar_->literals(scalar_texts(value));
}

std::vector<std::string> JsonLayout::scalar_texts(const Json& value) const {
  const bool is_string = value.is(Json::Kind::kString);
  std::vector<std::string> texts = {is_string ? strings_.notation().write(value.text)
                                              : to_text(value)};
  if (is_string && has_python_values()) {
    texts.push_back(single_strings_.notation().write(value.text));
  }
  const std::string word = has_python_words() ? python_word(value) : "";
  if (!word.empty()) texts.push_back(word);
  return texts;
}

bool JsonLayout::can_read_name(const std::string& name, bool is_argument) const {
  if (!(is_argument ? argument_names_ : names_).notation().quote.empty()) return true;
  if (name.empty()) return false;
  if (is_argument) {
    return arguments_->before_name.empty() ||
           name.find_first_of(arguments_->before_value) == name.npos;
  }
  return name.find_first_of(":{},\"<[]") == name.npos && kSpace.find(name.front()) == kSpace.npos &&
         kSpace.find(name.back()) == kSpace.npos;
}

std::optional<std::string> JsonLayout::unreadable_name(const Json& value, bool is_arguments) const {
  for (const std::string& name : value.keys) {
    if (!can_read_name(name, is_arguments)) return name;
  }
  for (const Json& one : value.values) {
    if (const auto name = unreadable_name(one, false)) return name;
  }
  return std::nullopt;
}

std::vector<std::string> JsonLayout::name_texts(const std::string& name) const {
  std::vector<std::string> texts = {names_.notation().write(name)};
  if (has_python_values()) texts.push_back(single_names_.notation().write(name));
  return texts;
}

Grammar::Node JsonLayout::distinct(std::vector<Grammar::Node> items, uint64_t min, uint64_t max) {
  for (Grammar::Node& item : items) item = grammar_->shared(item);
  // A rule for each set of items that came says what may follow.
  std::vector<Grammar::Rule> after;
  const size_t sets = size_t{1} << items.size();
  for (size_t set = 0; set < sets; ++set) after.push_back(grammar_->add_rule("distinct items"));
  for (size_t set = 0; set < sets; ++set) {
    const size_t count = std::bitset<32>(set).count();
    std::vector<Grammar::Node> choices;
    if (count >= min && count <= max) choices.push_back(grammar_->empty());
    for (size_t i = 0; count < max && i < items.size(); ++i) {
      if ((set >> i & 1) != 0) continue;
      choices.push_back(grammar_->sequence({set == 0 ? grammar_->empty() : comma_, items[i],
                                            grammar_->call(after[set | size_t{1} << i])}));
    }
    grammar_->define(after[set], grammar_->choice(std::move(choices)));
  }
  return grammar_->shared(enclosed("[", grammar_->call(after[0]), "]"));
}

Grammar::Node JsonLayout::array(const std::vector<Grammar::Node>& first, Grammar::Node more,
                                uint64_t min, uint64_t max) {
  const uint64_t count = std::min<uint64_t>(first.size(), max);
  if (min > max) return grammar_->nothing();
  Grammar::Node item = grammar_->shared(more), rest = grammar_->empty();
  if (max > count) {
    const uint64_t least = min > count ? min - count : 0;
    const uint64_t most = max == Grammar::kUnlimited ? max : max - count;
    // Without first items, the first of these has no comma.
    const Grammar::Node with_comma = grammar_->sequence({comma_, item});
    if (count > 0) {
      rest = grammar_->repeat(with_comma, least, most);
    } else {
      rest = grammar_->sequence(
          {item, grammar_->repeat(with_comma, least > 0 ? least - 1 : 0,
                                  most == Grammar::kUnlimited ? most : most - 1)});
      if (min == 0) rest = grammar_->optional(rest);
    }
  }
  for (uint64_t i = count; i-- > 0;) {
    const Grammar::Node one = grammar_->sequence({i > 0 ? comma_ : grammar_->empty(), first[i]});
    rest = grammar_->sequence({one, rest});
    if (i >= min) rest = grammar_->optional(rest);
    rest = grammar_->shared(rest);
  }
  return grammar_->shared(enclosed("[", rest, "]"));
}

}  // namespace thimble
