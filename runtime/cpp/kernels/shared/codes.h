#pragma once

/// \file
/// Single values of the formats in codes of 2 to 6 bits.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

/// Of row `lane` and column k of a block whose values are at `values`.
inline int coded_value(const uint8_t* values, size_t bits, size_t lane, size_t k) {
  const uint8_t* step = values + k / kColumnStep * step_bytes(bits) + lane * 4 + k % 4;
  const size_t low = low_bits(bits), columns_of_byte = 8 / low;
  const size_t quad = k % kColumnStep / 4, upper = quad * (bits - low);
  size_t code =
      step[quad / columns_of_byte * kLineBytes] >> (quad % columns_of_byte * low) & last_code(low);
  if (bits > low)
    code |= (step[(low + upper / 8) * kLineBytes] >> (upper % 8) & last_code(bits - low)) << low;
  return value_of(bits, code);
}

}  // namespace thimble::kernels
