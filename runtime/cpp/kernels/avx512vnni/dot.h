#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace thimble::kernels::avx512vnni {

/// acc + the dot products of 16 times 4 unsigned bytes with the same 4 signed bytes, read from
/// memory by the instruction itself. Assembly, so that accumulators stay in registers and the
/// broadcast costs no instruction of its own.
[[gnu::always_inline]] inline __m512i dot(__m512i acc, __m512i weights, const int8_t* x) {
  asm("vpdpbusd %2%{1to16%}, %1, %0"
      : "+v"(acc)
      : "v"(weights), "m"(*reinterpret_cast<const int32_t*>(x)));
  return acc;
}

/// The same, with the 4 signed bytes in every lane of a register.
[[gnu::always_inline]] inline __m512i dot(__m512i acc, __m512i weights, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(weights), "v"(x));
  return acc;
}

/// -kOffset times the sum of q, of a group_bias, -7 times the sum: what an offset of the weights
/// adds too much. Times the inverse of 7 modulo 2^32 is a division without a remainder.
template <uint32_t kOffset>
[[gnu::always_inline]] inline int32_t offset_bias(int32_t group_bias) {
  constexpr uint32_t kInverseOf7 = 0xB6DB6DB7;
  return static_cast<int32_t>(static_cast<uint32_t>(group_bias) * (kInverseOf7 * kOffset));
}

[[gnu::always_inline]] inline __m512i broadcast_four(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

}  // namespace thimble::kernels::avx512vnni
