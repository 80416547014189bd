// A compiled tokenizer at the end of a pipe, for tests:
//   tokenizer_cli BLOB encode|encode-special|decode < requests > answers
// A request or answer is a little-endian uint32 count and as many bytes (text) or int32 (ids).

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "tokenizer/token_stream.h"
#include "tokenizer/tokenizer.h"

namespace thimble {
namespace {

template <typename T>
bool read_request(std::vector<T>* values) {
  uint32_t count = 0;
  if (std::fread(&count, sizeof(count), 1, stdin) != 1) return false;
  values->resize(count);
  return std::fread(values->data(), sizeof(T), count, stdin) == count;
}

void write_answer(const void* values, size_t count, size_t size) {
  const auto header = static_cast<uint32_t>(count);
  std::fwrite(&header, sizeof(header), 1, stdout);
  std::fwrite(values, size, count, stdout);
}

void encode_all(const Tokenizer& tokenizer, bool parse_special) {
  for (std::vector<char> text; read_request(&text);) {
    const auto ids = tokenizer.encode(std::string_view(text.data(), text.size()), parse_special);
    write_answer(ids.data(), ids.size(), sizeof(int32_t));
  }
}

void decode_all(const Tokenizer& tokenizer) {
  for (std::vector<int32_t> ids; read_request(&ids);) {
    TokenStream stream(tokenizer);
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    text += stream.finish();
    write_answer(text.data(), text.size(), 1);
  }
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizer_cli BLOB encode|encode-special|decode\n";
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<char> data{std::istreambuf_iterator<char>(file), {}};
  const Result<Tokenizer> tokenizer =
      Tokenizer::load(reinterpret_cast<const uint8_t*>(data.data()), data.size());
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.message() << "\n";
    return 1;
  }
  const std::string mode = argv[2];
  if (mode == "decode") {
    decode_all(*tokenizer);
  } else {
    encode_all(*tokenizer, mode == "encode-special");
  }
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
