#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble::test {

/// What the machine can do at most, to hold kernels against.
struct Limits {
  /// Reads all bytes (a multiple of 256) in order; returns something of them.
  uint64_t (*read)(const uint8_t* data, size_t size);
  /// Multiplies int8 in registers, `loops` times; returns something of the sums.
  uint64_t (*multiply)(size_t loops);
  size_t operations;  ///< multiplications and additions of one loop
};

/// Of this CPU's widest instructions; null members where there is no probe for them.
Limits limits();

}  // namespace thimble::test
