/// Compiled tokenizers (exporter/schemas/tokenizer.fbs), and the texts of those that load.

#include <string>
#include <string_view>
#include <vector>

#include "fuzz/flatbuffer_mutator.h"
#include "fuzz/input.h"
#include "tokenizer/token_stream.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  constexpr char kText[] =
      "Hello  world, it's 12345!\n\n e\xCC\x81\xCC\xA7 \xEA\xB0\x80\xE1\x86\xA8 <s>\xFF"
      "<|endoftext|> \xF0\x9F\x91\xA9\xE2\x80\x8D aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
  const Result<Tokenizer> tokenizer = Tokenizer::load(data, size);
  if (!tokenizer.ok()) return 0;
  std::string long_word;  // without a space: its merges are found another way
  for (int i = 0; i < 60; ++i) long_word += "the\xC3\xA9ing";
  const std::vector<Piece> pieces = {{kText, true}, {long_word, false}, {"<s>", true}, {"", true}};
  for (const SpecialTokens special :
       {SpecialTokens::kLeftOut, SpecialTokens::kText, SpecialTokens::kApart}) {
    const std::vector<int32_t> ids = special == SpecialTokens::kText
                                         ? tokenizer->encode(kText, /*parse_special=*/true)
                                         : tokenizer->encode(pieces);
    const int32_t behind = ids.empty() ? -1 : ids.back();
    TokenStream stream(*tokenizer, special != SpecialTokens::kApart, special, behind);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    text += stream.finish();
    require(text.size() < 1 << 24);
  }
  for (const std::string_view token : tokenizer->special_tokens()) {
    (void)tokenizer->text_of(tokenizer->find_special(token));
  }
  (void)tokenizer->decoder().joins_texts();
  return 0;
}
