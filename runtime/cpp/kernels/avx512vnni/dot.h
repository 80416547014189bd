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

[[gnu::always_inline]] inline __m512i broadcast_four(const int8_t* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof four);
  return _mm512_set1_epi32(four);
}

}  // namespace thimble::kernels::avx512vnni
