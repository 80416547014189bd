// A compiled tokenizer at the end of a pipe, for tests:
//   tokenizer_cli BLOB MODE < requests > answers
// encode, encode-special: a text -> its ids. encode-pieces: texts, each behind '0' (a user's) or
// '1' (literal) -> the ids of all. decode: ids -> the streamed text. load: -> the microseconds that
// loading took, the fastest of five times. The framing is binary_requests.h's.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "tests/binary_requests.h"
#include "tokenizer/token_stream.h"
#include "tokenizer/tokenizer.h"

namespace thimble {
namespace {

void encode_texts(const Tokenizer& tokenizer, bool parse_special) {
  for (std::vector<char> text; read_values(&text);) {
    const auto ids = tokenizer.encode(std::string_view(text.data(), text.size()), parse_special);
    write_values(ids.data(), ids.size());
  }
}

void encode_pieces(const Tokenizer& tokenizer) {
  for (std::vector<std::string> texts; read_texts(&texts);) {
    std::vector<Piece> pieces;
    for (const std::string& text : texts) {
      pieces.push_back({text.substr(1), /*literal=*/text.front() == '1'});
    }
    const auto ids = tokenizer.encode(pieces);
    write_values(ids.data(), ids.size());
  }
}

void decode_ids(const Tokenizer& tokenizer) {
  for (std::vector<int32_t> ids; read_values(&ids);) {
    TokenStream stream(tokenizer);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    write_text(text + stream.finish());
  }
}

void time_loading(const std::vector<uint8_t>& data) {
  using Clock = std::chrono::steady_clock;
  auto best = Clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    const auto tokenizer = Tokenizer::load(data.data(), data.size());
    if (tokenizer.ok()) best = std::min(best, Clock::now() - start);
  }
  write_text(std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(best).count()));
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: tokenizer_cli BLOB MODE\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> data = read_file(argv[1]);
  const Result<Tokenizer> tokenizer = Tokenizer::load(data.data(), data.size());
  if (!tokenizer.ok()) {
    std::fputs(tokenizer.message().c_str(), stderr);
    return 1;
  }
  const std::string mode = argv[2];
  if (mode == "encode") encode_texts(*tokenizer, /*parse_special=*/false);
  if (mode == "encode-special") encode_texts(*tokenizer, /*parse_special=*/true);
  if (mode == "encode-pieces") encode_pieces(*tokenizer);
  if (mode == "decode") decode_ids(*tokenizer);
  if (mode == "load") time_loading(data);
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
