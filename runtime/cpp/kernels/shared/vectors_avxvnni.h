#pragma once

/// \file
/// vectors_avx2.h, with products of four bytes (AVX-VNNI).

#include "kernels/shared/vectors_avx2.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// acc + the dot products of 8 times 4 unsigned bytes with as many signed ones. The instruction
/// itself: GCC's intrinsic moves sums from register to register, and to the stack.
[[gnu::always_inline]] inline __m256i dpbusd(__m256i acc, __m256i positive, __m256i bytes) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(positive), "x"(bytes));
  return acc;
}

template <int kBits>
inline I32x16 shift_right(I32x16 a) {
  return {_mm256_srli_epi32(a.low, kBits), _mm256_srli_epi32(a.high, kBits)};
}

using Bytes = I32x16;
inline Bytes load_bytes(const int8_t* from) {
  return {_mm256_loadu_si256(as_vector(from)), _mm256_loadu_si256(as_vector(from + 32))};
}
template <int kHalf>
inline Bytes load_halves(const uint8_t* from) {
  const __m256i low_bits = _mm256_set1_epi8(0x0F);
  const auto bytes = [&](const uint8_t* at) {
    return _mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256(as_vector(at)), 4 * kHalf),
                            low_bits);
  };
  return {bytes(from), bytes(from + 32)};
}
[[gnu::always_inline]] inline I32x16 add_products(I32x16 acc, Bytes a, int32_t four) {
  const __m256i positive = _mm256_set1_epi32(four);
  return {dpbusd(acc.low, positive, a.low), dpbusd(acc.high, positive, a.high)};
}
inline I32x16 begin_biased(int32_t sum) { return broadcast(-128 * sum); }
inline I32x16 begin_unsigned(int32_t /*sum*/) { return broadcast(int32_t{0}); }
inline Bytes load_biased(const uint8_t* from) {
  return {_mm256_loadu_si256(as_vector(from)), _mm256_loadu_si256(as_vector(from + 32))};
}
[[gnu::always_inline]] inline I32x16 add_biased(I32x16 acc, Bytes a, int32_t four) {
  const __m256i bytes = _mm256_set1_epi32(four);
  return {dpbusd(acc.low, a.low, bytes), dpbusd(acc.high, a.high, bytes)};
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
