#include "constraint/json_strings.h"

#include <algorithm>
#include <utility>

#include "constraint/json.h"
#include "constraint/regex.h"
#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kMaxExceptBytes = 256;

/// A hexadecimal digit in both cases.
ByteSet hex_digit(uint32_t value) {
  constexpr std::string_view kLower = "0123456789abcdef", kUpper = "0123456789ABCDEF";
  ByteSet set;
  set.set(static_cast<uint8_t>(kLower[value]));
  set.set(static_cast<uint8_t>(kUpper[value]));
  return set;
}

CodePoints written_as_they_are(char quote) {
  CodePoints escaped(0, 0x1F);
  for (const uint32_t point : {static_cast<uint32_t>(quote), 0x5Cu, 0x7Fu}) {
    escaped.add(point, point);
  }
  return escaped.complement();
}

/// What may follow a string in a call, behind spaces.
constexpr std::string_view kBehindStrings = ",)]}:";

}  // namespace

std::string StringNotation::write(std::string_view text) const {
  if (!escapes) return quote + std::string(text) + quote;
  if (quote == "\"") return quoted_json(text);
  std::string written = quote;
  for (const char c : text) {
    const std::string json = quoted_json(std::string_view(&c, 1));
    if (c == quote[0]) written += '\\';
    written += c == '"' ? "\"" : json.substr(1, json.size() - 2);
  }
  return written + quote;
}

Grammar::Node JsonStrings::quoted(Grammar::Node content) {
  const Grammar::Node quote = grammar_->literal(notation_.quote);
  return grammar_->sequence({quote, content, quote});
}

Grammar::Node JsonStrings::beyond_ascii() {
  if (!beyond_ascii_) {
    const Grammar::Rule rule = grammar_->add_rule("character beyond ASCII");
    grammar_->define(rule, utf8_node(grammar_, CodePoints(0x80, 0x10FFFF)));
    beyond_ascii_ = grammar_->call(rule);
  }
  return *beyond_ascii_;
}

Grammar::Node JsonStrings::character(const CodePoints& points) {
  if (!notation_.escapes) return utf8_node(grammar_, points.intersection(notation_.points));
  const Grammar::Node written = escaped_or_plain(points);
  const bool inner = notation_.inner_quotes && points.contains(notation_.quote[0]);
  return inner ? grammar_->choice({written, grammar_->literal(notation_.quote)}) : written;
}

Grammar::Node JsonStrings::escaped_or_plain(const CodePoints& points) {
  static const CodePoints kPlain = written_as_they_are('"'),
                          kPlainOfPython = written_as_they_are('\'');
  const char quote = notation_.quote[0];
  CodePoints plain = points.intersection(quote == '"' ? kPlain : kPlainOfPython);
  std::vector<Grammar::Node> choices;
  const CodePoints beyond(0x80, 0x10FFFF);
  if (beyond.intersection(points.complement()).ranges().empty()) {
    choices.push_back(beyond_ascii());
    plain = plain.intersection(CodePoints(0, 0x7F));
  }
  choices.push_back(utf8_node(grammar_, plain));

  constexpr std::string_view kEscaped = "\\\b\f\n\r\t", kLetters = "\\bfnrt";
  ByteSet letters;
  if (points.contains(static_cast<uint8_t>(quote))) letters.set(static_cast<uint8_t>(quote));
  for (size_t i = 0; i < kEscaped.size(); ++i) {
    if (points.contains(static_cast<uint8_t>(kEscaped[i]))) {
      letters.set(static_cast<uint8_t>(kLetters[i]));
    }
  }
  const Grammar::Node backslash = grammar_->literal("\\");
  choices.push_back(grammar_->sequence({backslash, grammar_->byte(letters)}));
  for (const uint32_t high : {0u, 1u, 7u}) {
    ByteSet low;
    for (uint32_t digit = high == 7 ? 15 : 0; digit < 16; ++digit) {
      if (points.contains(16 * high + digit)) low |= hex_digit(digit);
    }
    choices.push_back(grammar_->sequence(
        {grammar_->literal("\\u00"), grammar_->byte(hex_digit(high)), grammar_->byte(low)}));
  }
  return grammar_->choice(std::move(choices));
}

Grammar::Node JsonStrings::end_of_any() {
  if (!end_of_any_) {
    const Grammar::Rule rule = grammar_->add_rule("end of a string");
    grammar_->define(rule, grammar_->sequence({any_content(), grammar_->literal(notation_.quote)}));
    end_of_any_ = grammar_->call(rule);
  }
  return *end_of_any_;
}

Grammar::Node JsonStrings::any_with_inner_quotes() {
  const Grammar::Node quote = grammar_->literal(notation_.quote);
  CodePoints going_on = CodePoints(' ', ' ');
  for (const char mark : kBehindStrings) going_on.add(static_cast<uint8_t>(mark), mark);
  const Grammar::Rule text = grammar_->add_rule("text"), behind = grammar_->add_rule("text");
  const Grammar::Node in_text = grammar_->call(text), behind_quote = grammar_->call(behind);
  const Grammar::Node first = grammar_->sequence({escaped_or_plain(CodePoints::all()), in_text});
  grammar_->define(text,
                   grammar_->choice({quote, first, grammar_->sequence({quote, behind_quote})}));
  const Grammar::Node more = grammar_->choice({quote, grammar_->literal(" ")});
  const Grammar::Node other = escaped_or_plain(going_on.complement());
  grammar_->define(behind, grammar_->choice({quote, grammar_->sequence({more, behind_quote}),
                                             grammar_->sequence({other, in_text})}));
  return grammar_->sequence({quote, grammar_->choice({quote, first})});
}

Grammar::Node JsonStrings::any() {
  if (!any_) {
    any_ = notation_.inner_quotes
               ? grammar_->shared(any_with_inner_quotes())
               : grammar_->sequence({grammar_->literal(notation_.quote), end_of_any()});
  }
  return *any_;
}

Grammar::Node JsonStrings::ends_early() {
  const Grammar::Node quote = grammar_->literal(notation_.quote), any = any_content();
  const Grammar::Node spaces = grammar_->repeat(grammar_->literal(" "), 0, Grammar::kUnlimited);
  ByteSet marks;
  for (const char mark : kBehindStrings) marks.set(static_cast<uint8_t>(mark));
  // One that begins with its quote could begin a text in three quotes.
  return grammar_->choice({grammar_->sequence({quote, any}),
                           grammar_->sequence({any, quote, spaces, grammar_->byte(marks), any})});
}

Grammar::Node JsonStrings::of_length(uint64_t min, uint64_t max) {
  if (min == 0 && max == Grammar::kUnlimited) return any();
  const auto [place, is_new] = of_length_.try_emplace({min, max});
  if (is_new) {
    const Grammar::Node content = grammar_->repeat(character(CodePoints::all()), min, max);
    place->second = grammar_->shared(quoted(content));
  }
  return place->second;
}

Result<Grammar::Node> JsonStrings::matching(std::string_view regex, bool whole) {
  const Result<Grammar::Node> inner = content(regex, whole);
  return inner.ok() ? quoted(*inner) : inner;
}

Result<Grammar::Node> JsonStrings::content(std::string_view regex, bool whole) {
  return regex_node(regex, /*search=*/!whole, grammar_,
                    [this](Grammar* grammar, const CodePoints& points) {
                      if (grammar == grammar_) return character(points);
                      return JsonStrings(grammar, notation_).character(points);
                    });
}

Grammar::Node JsonStrings::any_content() {
  return grammar_->repeat(character(CodePoints::all()), 0, Grammar::kUnlimited);
}

Result<Grammar::Node> JsonStrings::except(std::vector<std::string> texts) {
  if (texts.empty()) return any();
  std::sort(texts.begin(), texts.end());
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  for (const std::string& text : texts) {
    if (text.size() > kMaxExceptBytes) {
      return Status::error("the property name " + quoted_json(text.substr(0, 40)) + " has " +
                           std::to_string(text.size()) + " bytes, more than the " +
                           std::to_string(kMaxExceptBytes) +
                           " that are supported beside additionalProperties");
    }
  }
  return grammar_->sequence(
      {grammar_->literal(notation_.quote), except_tail(texts, 0, texts.size(), 0)});
}

/// What may follow the first `depth` bytes, which sorted texts from `begin` to `end` share, so that
/// none of them results; with the closing quote.
Grammar::Node JsonStrings::except_tail(const std::vector<std::string>& texts, size_t begin,
                                       size_t end, size_t depth) {
  std::vector<Grammar::Node> choices;
  CodePoints others = CodePoints::all();
  size_t at = begin;
  if (texts[at].size() == depth) {
    ++at;  // it cannot end here
  } else {
    choices.push_back(grammar_->literal(notation_.quote));
  }
  while (at < end) {
    size_t after = depth;
    const uint32_t point = next_code_point(texts[at], &after);
    const std::string_view character_bytes =
        std::string_view(texts[at]).substr(depth, after - depth);
    size_t next = at + 1;
    while (next < end && texts[next].compare(depth, after - depth, character_bytes) == 0) ++next;
    const CodePoints single(point, point);
    choices.push_back(grammar_->sequence(
        {character(single), grammar_->shared(except_tail(texts, at, next, after))}));
    others = others.intersection(single.complement());
    at = next;
  }
  choices.push_back(grammar_->sequence({character(others), end_of_any()}));
  return grammar_->choice(std::move(choices));
}

}  // namespace thimble
