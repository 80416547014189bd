// A compiled tokenizer at the end of a pipe, for tests:
//   tokenizer_cli BLOB MODE < requests > answers
// encode, encode-special: a text -> its ids. encode-pieces: texts, each behind '0' (a user's) or
// '1' (literal) -> the ids of all. decode: ids -> the streamed text. load: -> the bytes that
// loading allocated. The framing is binary_requests.h's.

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/binary_requests.h"
#include "tokenizer/token_stream.h"
#include "tokenizer/tokenizer.h"

namespace {

size_t allocated = 0;

}  // namespace

void* operator new(size_t size) {
  allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

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

void measure_loading(const std::vector<uint8_t>& data) {
  const size_t before = allocated;
  const auto tokenizer = Tokenizer::load(data.data(), data.size());
  if (tokenizer.ok()) write_text(std::to_string(allocated - before));
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
  if (mode == "load") measure_loading(data);
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
