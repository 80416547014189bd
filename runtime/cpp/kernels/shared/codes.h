#pragma once

/// \file
/// Single values of the formats in codes of 4, 5 or 6 bits.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

/// Of row `lane` and column k of a block whose values are at `values`.
inline int coded_value(const uint8_t* values, size_t bits, size_t lane, size_t k) {
  const uint8_t* step = values + k / kColumnStep * step_bytes(bits) + lane * 4 + k % 4;
  const size_t quad = k % kColumnStep / 4, upper = quad * (bits - 4);
  int code = step[quad / 2 * kLineBytes] >> (quad % 2 * 4) & 15;
  if (bits > 4)
    code |= (step[(4 + upper / 8) * kLineBytes] >> (upper % 8) & ((1 << (bits - 4)) - 1)) << 4;
  return largest_value(bits) - code;
}

}  // namespace thimble::kernels
