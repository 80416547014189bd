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

CodePoints written_as_they_are() {
  CodePoints escaped(0, 0x1F);
  for (const uint32_t point : {0x22u, 0x5Cu, 0x7Fu}) escaped.add(point, point);
  return escaped.complement();
}

}  // namespace

std::string StringNotation::write(std::string_view text) const {
  return escapes ? quoted_json(text) : quote + std::string(text) + quote;
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
  static const CodePoints kPlain = written_as_they_are();
  CodePoints plain = points.intersection(kPlain);
  std::vector<Grammar::Node> choices;
  const CodePoints beyond(0x80, 0x10FFFF);
  if (beyond.intersection(points.complement()).ranges().empty()) {
    choices.push_back(beyond_ascii());
    plain = plain.intersection(CodePoints(0, 0x7F));
  }
  choices.push_back(utf8_node(grammar_, plain));

  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  ByteSet letters;
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

Grammar::Node JsonStrings::any() {
  if (!any_) any_ = grammar_->sequence({grammar_->literal(notation_.quote), end_of_any()});
  return *any_;
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
  const Result<Grammar::Node> found = content(regex, whole);
  return found.ok() ? quoted(*found) : found;
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
