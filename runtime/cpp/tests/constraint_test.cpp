/// Matchers taken back and copied, masks beside tokens tried one by one, and recognizers at the
/// limit of their memory.

#include "constraint/constraint.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/cases.h"

namespace thimble {
namespace {

using test::expect;
using Kind = ConstraintText::Kind;

std::unique_ptr<Constraint> compiled(Kind kind, const std::string& text) {
  const std::vector<std::string_view> tokens = {"{", "\"a\"", ":", "1", "2", ",", "}", "\"b\"", ""};
  const auto vocabulary = std::make_shared<Vocabulary>(tokens, std::vector<int32_t>{8}, 9);
  auto constraint = Constraint::compile(ConstraintText{kind, text}, vocabulary);
  return constraint.ok() ? std::move(*constraint) : nullptr;
}

const char* const kSchema =
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "additionalProperties": false})";

bool truncating_restores_what_was() {
  const auto constraint = compiled(Kind::kJsonSchema, kSchema);
  Matcher matcher(*constraint);
  std::vector<std::vector<uint32_t>> masks{matcher.mask().words()};
  const std::vector<std::string> pieces = {"{", "\"a\"", ":", "1", "2",
                                           ",", "\"b\"", ":", "1", "}"};
  for (const std::string& piece : pieces) {
    if (!expect(matcher.accept(piece), "every piece to be allowed")) return false;
    masks.push_back(matcher.mask().words());
  }
  bool same = expect(matcher.ended(), "a text that has ended");
  for (size_t length = pieces.size(); length >= 6; length -= 2) {
    matcher.truncate(length);
    same = expect(matcher.mask().words() == masks[length], "the mask of that length") && same;
  }
  return expect(!matcher.accept("}"), "no end after a comma") &&
         expect(matcher.length() == 6, "a refused piece not to be added") &&
         expect(matcher.accept("\"b\":1}") && matcher.ended(), "the text to go on") && same;
}

bool copies_go_their_own_ways() {
  const auto constraint = compiled(Kind::kJsonSchema, kSchema);
  Matcher first(*constraint);
  if (!expect(first.accept("{"), "an object")) return false;
  Matcher second = first;
  return expect(first.accept("\"a\":1}") && second.accept("\"b\":2}"), "both") &&
         expect(first.ended() && second.ended(), "both to have ended");
}

bool ends_are_allowed_where_the_text_is_complete() {
  const auto constraint = compiled(Kind::kRegex, "1[12]?");
  Matcher matcher(*constraint);
  const bool before = matcher.mask()[8];
  return expect(!before, "no end of an empty text") && expect(matcher.accept("1"), "1") &&
         expect(matcher.mask()[8] && matcher.mask()[3] && !matcher.mask()[0], "an end or more");
}

/// Counted characters lead to a new state each.
bool memory_is_bounded() {
  const auto constraint = compiled(Kind::kRegex, "a{1000000000}");
  Recognizer& recognizer = constraint->recognizer();
  Recognizer::State state = recognizer.start();
  int count = 0;
  while (state != Recognizer::kDead) {
    state = recognizer.next(state, 'a');
    if (++count % 4096 == 0) recognizer.shrink();
  }
  if (!expect(recognizer.full() && count > 100'000, "many states, but not all") ||
      !expect(recognizer.bytes() < size_t{120} << 20, "bounded memory")) {
    return false;
  }
  constraint->begin();
  return expect(!recognizer.full() && recognizer.bytes() < size_t{1} << 20, "a new beginning") &&
         expect(Matcher(*constraint).accept("aaa"), "the next text");
}

/// Tokens of up to 40 characters: plain ones, quotes, escapes, control characters, broken ones.
std::vector<std::string> random_tokens(std::mt19937* random) {
  const std::vector<std::string> parts = {
      "a", "b",  "z",  "a",     "b",  " ",        "\xC3\xA9",
      "7", "\"", "\\", "\\u00", "\n", "\xE6\x97", "\xE6\x97\xA5",
      ",", ":",  "[",  "]",     ",",  "\",\"",    "\x7F"};
  std::vector<std::string> tokens(parts);
  for (const size_t size : {40u, 39u, 33u, 17u, 9u, 8u}) tokens.emplace_back(size, 'a');
  while (tokens.size() < 600) {
    std::string token;
    const size_t kinds = (*random)() % 3 == 0 ? parts.size() : 6;  // most are plain
    for (size_t left = 1 + (*random)() % ((*random)() % 4 == 0 ? 30 : 6); left > 0; --left) {
      token += parts[(*random)() % kinds];
    }
    tokens.push_back(token);
  }
  return tokens;
}

/// Counts near and far from their limits, in each other, of texts that can be read in two ways.
bool masks_are_those_of_single_tokens() {
  std::mt19937 random(7);
  const std::vector<std::string> tokens = random_tokens(&random);
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const auto vocabulary = std::make_shared<Vocabulary>(views, std::vector<int32_t>(), views.size());
  const std::vector<ConstraintText> constraints = {
      {Kind::kJsonSchema, R"({"type": "string", "minLength": 60, "maxLength": 300})"},
      {Kind::kJsonSchema, R"({"type": "string", "maxLength": 30})"},
      {Kind::kJsonSchema, R"({"type": "array", "items": {"type": "string", "minLength": 5,
                              "maxLength": 90}, "minItems": 50, "maxItems": 200})"},
      {Kind::kJsonSchema, R"({"type": "string", "minLength": 500})"},
      {Kind::kJsonSchema, R"({"type": "string", "pattern": "^[ab ]{70,90}7"})"},
      {Kind::kJsonSchema, R"({"type": "string", "pattern": "^([ab]+ )*[ab]+7$", "minLength": 30,
                              "maxLength": 120})"},
      {Kind::kJsonSchema, R"({"type": "array", "items": {"type": "string", "pattern": "^(aab)*$",
                              "maxLength": 80}, "minItems": 50, "maxItems": 200})"},
      {Kind::kRegex, "(([ab]{10,50},){20,30}:){3,100}"},
      {Kind::kRegex, "(a|aa|b){60,100}(a|z){0,80}"},
      {Kind::kRegex, "((a?b?){70}z){100,200}"},
      {Kind::kRegex, "([ab]{3,80}|[az]{50,60}7)(a|b| ){80,}"},
  };
  size_t compared = 0;
  for (const ConstraintText& text : constraints) {
    const auto constraint = Constraint::compile(text, vocabulary);
    if (!expect(constraint.ok(), text.text.c_str())) return false;
    Recognizer& recognizer = (*constraint)->recognizer();
    for (int walk = 0; walk < 6; ++walk) {
      Recognizer::State state = recognizer.start();
      for (int length = 0; length < 60 && state != Recognizer::kDead; ++length) {
        const TokenMask mask = (*constraint)->masks().at(state);
        std::vector<Recognizer::State> allowed{Recognizer::kDead};
        for (size_t token = 0; token < tokens.size(); ++token) {
          Recognizer::State next = state;
          for (const char c : tokens[token]) {
            next = recognizer.next(next, static_cast<uint8_t>(c));
          }
          if (!expect(mask[token] == (next != Recognizer::kDead), tokens[token].c_str()))
            return false;
          if (next != Recognizer::kDead) allowed.push_back(next);
        }
        state = allowed.size() == 1 ? allowed[0] : allowed[1 + random() % (allowed.size() - 1)];
        ++compared;
      }
    }
  }
  return expect(compared > 800, "many states");
}

const test::Case kCases[] = {
    {"masks_are_those_of_single_tokens", masks_are_those_of_single_tokens},
    {"truncating_restores_what_was", truncating_restores_what_was},
    {"copies_go_their_own_ways", copies_go_their_own_ways},
    {"ends_are_allowed_where_the_text_is_complete", ends_are_allowed_where_the_text_is_complete},
    {"memory_is_bounded", memory_is_bounded},
};

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::test::run_cases(thimble::kCases, argc, argv); }
