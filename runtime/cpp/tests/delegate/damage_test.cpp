// delegate_damage_test BLOB ROUNDS: reads damaged copies of a CPU delegate's program and runs those
// that read, on weights of zeros. Whatever the damage, a sentence or some numbers come out; with
// sanitizers on, a read outside the copy or outside a weight ends the program.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tests/binary_requests.h"
#include "tests/delegate/run_on_zeros.h"

namespace thimble {
namespace {

void damage(std::vector<uint8_t>* data, std::mt19937* chance) {
  const auto below = [chance](size_t limit) { return (*chance)() % limit; };
  if (below(16) == 0) {
    data->resize(below(data->size()));
    return;
  }
  constexpr uint32_t kHostile[] = {0, 1, 2, 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF};
  for (size_t i = 0; i <= below(3); ++i) {
    const size_t at = below(data->size());
    const uint32_t word = below(2) == 0 ? kHostile[below(std::size(kHostile))] : (*chance)();
    const size_t width = below(2) == 0 ? 1 : std::min<size_t>(4, data->size() - at);
    for (size_t byte = 0; byte < width; ++byte) {
      (*data)[at + byte] = static_cast<uint8_t>(word >> (8 * byte));
    }
  }
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: delegate_damage_test BLOB ROUNDS\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> whole = read_file(argv[1]);
  std::mt19937 chance(7);
  int ran = 0, refused = 0;
  for (int round = std::atoi(argv[2]); round > 0; --round) {
    std::vector<uint8_t> copy = whole;
    damage(&copy, &chance);
    // An allocation of exactly this size, so that a sanitizer sees its end.
    const auto exact = std::make_unique<uint8_t[]>(copy.size());
    std::copy(copy.begin(), copy.end(), exact.get());
    Result<cpu::Program> program = cpu::read_program(exact.get(), copy.size());
    refused += program.ok() ? 0 : 1;
    if (!program.ok() || !test::is_small(*program)) continue;
    ran += test::run_on_zeros(std::move(*program)) ? 1 : 0;
  }
  std::fprintf(stderr, "%d damaged programs ran, %d were refused\n", ran, refused);
  return ran > 0 && refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
