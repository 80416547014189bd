/// Matchers taken back and copied, and recognizers at the limit of their memory.

#include "constraint/constraint.h"

#include <memory>
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

const test::Case kCases[] = {
    {"truncating_restores_what_was", truncating_restores_what_was},
    {"copies_go_their_own_ways", copies_go_their_own_ways},
    {"ends_are_allowed_where_the_text_is_complete", ends_are_allowed_where_the_text_is_complete},
    {"memory_is_bounded", memory_is_bounded},
};

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::test::run_cases(thimble::kCases, argc, argv); }
