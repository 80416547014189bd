#pragma once

/// \file
/// Tables for a byte shuffle, by which the codes of 2 and 3 bits become what kernels multiply.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

struct NibbleTable {
  alignas(16) uint8_t bytes[16];
};

/// drop_of() the code first + (the low two bits of a nibble, or of half 1 the high two).
constexpr NibbleTable drops_by_nibble(size_t bits, size_t half, size_t first) {
  NibbleTable table{};
  for (size_t nibble = 0; nibble < 16; ++nibble)
    table.bytes[nibble] = drop_of(bits, first + (nibble >> 2 * half & 3));
  return table;
}

}  // namespace thimble::kernels
