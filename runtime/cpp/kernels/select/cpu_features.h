#pragma once

#include <cstdint>

namespace thimble::kernels {

/// The CPU features that a variant may require.
enum CpuFeature : uint32_t {
  kAvx2 = 1 << 0,    ///< AVX2, FMA and F16C
  kAvx512 = 1 << 1,  ///< AVX512 F, BW, VL and DQ
  kAvx512Vnni = 1 << 2,
  kNeonDotprod = 1 << 3,
  kNeonI8mm = 1 << 4,
  kAmxInt8 = 1 << 5,      ///< AMX tiles and their int8 products
  kWasmSimd = 1 << 6,     ///< WebAssembly's vectors of 128 bits
  kWasmRelaxed = 1 << 7,  ///< its relaxed int8 products, and fused float ones
  kWasmPairs = 1 << 8,    ///< int8 products of pairs are one instruction, and those of four are not
  kAvxVnni = 1 << 9,      ///< AVX-VNNI: products of four bytes without AVX512
};

/// Returns the features of this CPU that its operating system lets programs use; requests those
/// that need a permission.
uint32_t cpu_features();

}  // namespace thimble::kernels
