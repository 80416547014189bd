#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble::bench {

/// The machine's limits, with which kernels and complete models are compared.
struct Limits {
  /// Reads all bytes (a multiple of 256) in order; returns something of them.
  uint64_t (*read)(const uint8_t* data, size_t size);
  /// Multiplies int8 in registers, `loops` times; returns something of the sums. Null where there
  /// is no probe for this CPU.
  uint64_t (*multiply)(size_t loops);
  size_t operations;  ///< multiplications and additions of one loop
  const char* unit;   ///< the instruction that multiplies, as vpdpbusd; "" where there is none
  /// The same with operands that come from the caches, half of them from the second level, as a
  /// matrix product's must. Null where there is no probe.
  uint64_t (*multiply_cached)(size_t loops) = nullptr;
};

/// The limits with the fastest instructions that a CPU with `features` (kernels::CpuFeature bits)
/// has.
Limits limits(uint32_t features);

/// The same for this CPU.
Limits limits();

}  // namespace thimble::bench
