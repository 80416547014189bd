/// Schemas, regular expressions, choices and grammars. The first byte chooses which; the rest is
/// its text. Those that compile give masks, along what must follow or the first token that may.

#include <memory>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "fuzz/input.h"

namespace thimble {
namespace {

constexpr int kMostSteps = 60;  // of a compilation: then it is not wanted any more
constexpr int kMostTokens = 12;

/// Every byte is a token, and some words are.
std::shared_ptr<const Vocabulary> make_vocabulary() {
  static std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"\":", "\",", "true", "null", "the ", "12", "}]", " \n", "\xC3\xA9"}) {
    texts.emplace_back(word);
  }
  texts.emplace_back();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto end = static_cast<int32_t>(texts.size() - 1);
  return std::make_shared<Vocabulary>(views, std::vector<int32_t>{end}, texts.size());
}

}  // namespace
}  // namespace thimble

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  static const std::shared_ptr<const Vocabulary> vocabulary = make_vocabulary();
  if (size == 0) return 0;
  ConstraintText text;
  text.kind = static_cast<ConstraintText::Kind>(1 + data[0] % 4);
  text.relax = (data[0] & 4) != 0;
  text.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  int steps = 0;
  const auto constraint =
      Constraint::compile(text, vocabulary, [&steps] { return ++steps < kMostSteps; });
  if (!constraint.ok()) {
    require(!constraint.message().empty());
    return 0;
  }
  (*constraint)->begin();
  Matcher matcher(**constraint);
  for (int i = 0; i < kMostTokens && !matcher.ended(); ++i) {
    std::string next = matcher.forced(8);
    const TokenMask& mask = matcher.mask();
    for (size_t token = 0; next.empty() && token < 256; ++token) {
      if (mask[(token + 32) % 256]) {
        next = std::string(1, static_cast<char>((token + 32) % 256));
      }
    }
    if (next.empty()) break;
    require(matcher.accept(next));  // a mask and what must follow are right
  }
  return 0;
}
