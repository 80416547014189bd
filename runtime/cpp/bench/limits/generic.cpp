#include <cstring>

#include "bench/limits/limits.h"

namespace thimble::bench {
namespace {

uint64_t read(const uint8_t* data, size_t size) {
  uint64_t sums[8] = {}, words[8];
  for (size_t i = 0; i < size; i += sizeof words) {
    std::memcpy(words, data + i, sizeof words);
    for (size_t j = 0; j < 8; ++j) sums[j] += words[j];
  }
  uint64_t total = 0;
  for (uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

Limits limits(uint32_t) { return {read, nullptr, 0, ""}; }

Limits limits() { return limits(0); }

}  // namespace thimble::bench
