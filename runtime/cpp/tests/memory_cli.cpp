/// Loads a model that is in memory and continues a prompt greedily: memory_cli MODEL.pte PROMPT
/// TOKENS

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "c_interface/thimble.h"

namespace {

int print(const char* text, size_t size, void*) {
  return std::fwrite(text, 1, size, stdout) == size ? 1 : 0;
}

}  // namespace

int main(int, char** argv) {
  std::ifstream stream(argv[1], std::ios::binary);
  const std::vector<uint8_t> file{std::istreambuf_iterator<char>(stream), {}};
  const thimble_load_options load{1, 0, 0};
  char error[1024];
  thimble_runner* runner =
      thimble_load_bytes(file.data(), file.size(), "the model", &load, error, sizeof(error));
  int failed = 1;
  if (runner != nullptr) {
    const thimble_options options{std::atoll(argv[3]), 0.0f, 0, 1.0f, 0.0f, 0};
    failed = thimble_generate(runner, argv[2], std::strlen(argv[2]), &options, print, nullptr,
                              error, sizeof(error));
  }
  if (failed != 0) std::fprintf(stderr, "%s\n", error);
  thimble_free(runner);
  return failed;
}
