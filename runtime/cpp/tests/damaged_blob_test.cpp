// damaged_blob_test BLOB ROUNDS: loads damaged copies of a compiled tokenizer or chat template and
// uses those that load. Whatever the damage, an error or some text comes out; with sanitizers on, a
// read outside the copy ends the program.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/binary_requests.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/token_stream.h"

namespace thimble {
namespace {

constexpr char kText[] =
    "Hello  world, it's 12345!\n\n e\xCC\x81\xCC\xA7 \xEA\xB0\x80\xE1\x86\xA8 <s>\xFF"
    "<|endoftext|> \xF0\x9F\x91\xA9\xE2\x80\x8D aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Whether the tokenizer loads; if so, it is used.
bool use_tokenizer(const uint8_t* data, size_t size) {
  const Result<Tokenizer> tokenizer = Tokenizer::load(data, size);
  if (!tokenizer.ok()) return false;
  for (const bool parse_special : {false, true}) {
    TokenStream stream(*tokenizer);
    std::string text;
    for (const int32_t id : tokenizer->encode(kText, parse_special)) text += stream.push(id);
    text += stream.finish();
    if (text.size() > 1 << 20) std::abort();
  }
  return true;
}

/// Whether the template loads; if so, it is used.
bool use_chat_template(const uint8_t* data, size_t size) {
  const Result<ChatTemplate> chat_template = ChatTemplate::load(data, size);
  if (!chat_template.ok()) return false;
  const std::vector<Message> messages = {
      {"system", " be kind "}, {"user", kText}, {"assistant", "a</think>b"}, {"user", "\n"}};
  const auto pieces = chat_template->render(messages, /*add_generation_prompt=*/true);
  return pieces.ok() || !pieces.message().empty();
}

void damage(std::vector<uint8_t>* data, std::mt19937* chance) {
  const auto below = [chance](size_t limit) { return (*chance)() % limit; };
  if (below(8) == 0) {
    data->resize(below(data->size()));
    return;
  }
  constexpr uint32_t kHostile[] = {0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x110000, 0xFFFF};
  for (size_t i = 0; i <= below(6); ++i) {
    // The tables and offsets lie at the two ends, the long vectors between them.
    const size_t window = std::min<size_t>(data->size(), below(2) == 0 ? data->size() : 512);
    const size_t at = below(2) == 0 ? below(window) : data->size() - 1 - below(window);
    const uint32_t word = below(2) == 0 ? kHostile[below(std::size(kHostile))] : (*chance)();
    const size_t width = below(2) == 0 ? 1 : std::min<size_t>(4, data->size() - at);
    for (size_t byte = 0; byte < width; ++byte) {
      (*data)[at + byte] = static_cast<uint8_t>(word >> (8 * byte));
    }
  }
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: damaged_blob_test BLOB ROUNDS\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> whole = read_file(argv[1]);
  std::mt19937 chance(7);
  int loaded = 0;
  int refused = 0;
  for (int round = std::atoi(argv[2]); round > 0; --round) {
    std::vector<uint8_t> copy = whole;
    damage(&copy, &chance);
    // An allocation of exactly this size, so that a sanitizer sees its end.
    const auto exact = std::make_unique<uint8_t[]>(copy.size());
    std::copy(copy.begin(), copy.end(), exact.get());
    const bool loads =
        use_tokenizer(exact.get(), copy.size()) || use_chat_template(exact.get(), copy.size());
    ++(loads ? loaded : refused);
  }
  std::fprintf(stderr, "%d damaged copies loaded, %d were refused\n", loaded, refused);
  return loaded > 0 && refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
