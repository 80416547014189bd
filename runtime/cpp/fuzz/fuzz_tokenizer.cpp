/// Compiled tokenizers (exporter/schemas/tokenizer.fbs), and the texts of those that load.

#include <string>

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
  TokenStream stream(*tokenizer);
  std::string text;
  for (const int32_t id : tokenizer->encode(kText, /*parse_special=*/true)) text += stream.push(id);
  text += stream.finish();
  require(text.size() < 1 << 24);
  return 0;
}
