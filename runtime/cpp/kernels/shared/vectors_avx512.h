#pragma once

/// \file
/// vectors_scalar.h in AVX512.

#include <immintrin.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

using F32x16 = __m512;
using I32x16 = __m512i;

inline F32x16 load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, F32x16 a) { _mm512_storeu_ps(to, a); }
/// GCC would load it at each use.
[[gnu::always_inline]] inline F32x16 in_register(F32x16 a) {
  asm("" : "+v"(a));
  return a;
}
inline F32x16 broadcast(float value) { return _mm512_set1_ps(value); }
inline F32x16 add(F32x16 a, F32x16 b) { return _mm512_add_ps(a, b); }
inline F32x16 sub(F32x16 a, F32x16 b) { return _mm512_sub_ps(a, b); }
inline F32x16 mul(F32x16 a, F32x16 b) { return _mm512_mul_ps(a, b); }
inline F32x16 div(F32x16 a, F32x16 b) { return _mm512_div_ps(a, b); }
inline F32x16 fused(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
inline F32x16 min(F32x16 a, F32x16 b) { return _mm512_min_ps(a, b); }
inline F32x16 max(F32x16 a, F32x16 b) { return _mm512_max_ps(a, b); }
template <int kApart>
inline F32x16 exchange(F32x16 a) {
  constexpr int kOrder = kApart == 1 || kApart == 4 ? 0xB1 : 0x4E;
  return kApart <= 2 ? _mm512_permute_ps(a, kOrder) : _mm512_shuffle_f32x4(a, a, kOrder);
}

inline float lane_sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float lane_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

inline I32x16 load(const int32_t* from) { return _mm512_loadu_si512(from); }
inline void store(int32_t* to, I32x16 a) { _mm512_storeu_si512(to, a); }
inline I32x16 broadcast(int32_t value) { return _mm512_set1_epi32(value); }
inline I32x16 add(I32x16 a, I32x16 b) { return _mm512_add_epi32(a, b); }
inline I32x16 sub(I32x16 a, I32x16 b) { return _mm512_sub_epi32(a, b); }
inline I32x16 mul(I32x16 a, I32x16 b) { return _mm512_mullo_epi32(a, b); }
inline F32x16 to_float(I32x16 a) { return _mm512_cvtepi32_ps(a); }
inline I32x16 round_to_int(F32x16 a) {
  return _mm512_cvt_roundps_epi32(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline void store_bytes(int8_t* to, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(a));
}
inline I32x16 joined(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  constexpr int kSelect = 0xCA;
  const auto behind = [](int32_t mask, __m512i low, __m512i high) {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi32(mask), low, high, kSelect);
  };
  const __m512i two = behind(0xFF, a, _mm512_slli_epi32(b, 8));
  const __m512i three = behind(0xFFFF, two, _mm512_slli_epi32(c, 16));
  return behind(0xFFFFFF, three, _mm512_slli_epi32(d, 24));
}
inline int32_t sum(I32x16 a) { return _mm512_reduce_add_epi32(a); }
inline F32x16 power_of_two(I32x16 n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
inline F32x16 add_exponent(F32x16 a, F32x16 shifted) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), exponent));
}
inline F32x16 load_half(const uint16_t* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void store_half(uint16_t* to, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

template <int kBits>
inline I32x16 shift_right(I32x16 a) {
  return _mm512_srli_epi32(a, kBits);
}

using Bytes = __m512i;
inline Bytes load_bytes(const int8_t* from) { return _mm512_loadu_si512(from); }
template <int kHalf>
inline Bytes load_halves(const uint8_t* from) {
  return _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(from), 4 * kHalf),
                          _mm512_set1_epi8(0x0F));
}
/// The instruction itself: GCC's intrinsic moves sums from register to register, and to the stack.
[[gnu::always_inline]] inline I32x16 dpbusd(I32x16 acc, __m512i positive, __m512i bytes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(positive), "v"(bytes));
  return acc;
}
[[gnu::always_inline]] inline I32x16 add_products(I32x16 acc, Bytes a, int32_t four) {
  return dpbusd(acc, _mm512_set1_epi32(four), a);
}
inline I32x16 begin_biased(int32_t sum) { return _mm512_set1_epi32(-128 * sum); }
inline I32x16 begin_unsigned(int32_t /*sum*/) { return broadcast(int32_t{0}); }
inline Bytes load_biased(const uint8_t* from) { return _mm512_loadu_si512(from); }
[[gnu::always_inline]] inline I32x16 add_biased(I32x16 acc, Bytes a, int32_t four) {
  return dpbusd(acc, a, _mm512_set1_epi32(four));
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
