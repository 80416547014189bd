#include "core/crc32.h"

#include <array>
#include <cstring>

namespace thimble {
namespace {

constexpr int kSlices = 8;
using Table = std::array<std::array<uint32_t, 256>, kSlices>;

/// Row 0 advances the checksum by one byte; row n by one byte that n more bytes follow.
constexpr Table make_table() {
  constexpr uint32_t kPolynomial = 0xEDB88320;
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) * kPolynomial);
    table[0][byte] = value;
  }
  for (int row = 1; row < kSlices; ++row) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = table[row - 1][byte];
      table[row][byte] = (before >> 8) ^ table[0][before & 0xFF];
    }
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

uint32_t crc32(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFF;
  for (; size >= kSlices; data += kSlices, size -= kSlices) {
    uint64_t word;
    std::memcpy(&word, data, sizeof(word));
    word ^= crc;
    crc = 0;
    for (int slice = 0; slice < kSlices; ++slice) {
      crc ^= kTable[kSlices - 1 - slice][(word >> (8 * slice)) & 0xFF];
    }
  }
  for (; size > 0; ++data, --size) crc = (crc >> 8) ^ kTable[0][(crc ^ *data) & 0xFF];
  return ~crc;
}

}  // namespace thimble
