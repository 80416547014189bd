#pragma once

/// \file
/// vectors_scalar.h in AVX2, FMA and F16C: two registers.

#include <immintrin.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

struct F32x16 {
  __m256 low, high;
};
struct I32x16 {
  __m256i low, high;
};

inline const __m256i* as_vector(const void* from) { return static_cast<const __m256i*>(from); }
inline __m256i* as_vector(void* to) { return static_cast<__m256i*>(to); }

inline F32x16 load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
inline void store(float* to, F32x16 a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline F32x16 in_register(F32x16 a) { return a; }
inline F32x16 broadcast(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline F32x16 add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline F32x16 fused(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
template <int kApart>
inline F32x16 exchange(F32x16 a) {
  if constexpr (kApart == 8) return {a.high, a.low};
  if constexpr (kApart == 4) {
    return {_mm256_permute2f128_ps(a.low, a.low, 1), _mm256_permute2f128_ps(a.high, a.high, 1)};
  }
  constexpr int kOrder = kApart == 1 ? 0xB1 : 0x4E;
  return {_mm256_permute_ps(a.low, kOrder), _mm256_permute_ps(a.high, kOrder)};
}

inline float lane_sum(F32x16 a) {
  const __m256 eight = _mm256_add_ps(a.low, a.high);
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
inline float lane_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(a.low, a.high);
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

inline I32x16 load(const int32_t* from) {
  return {_mm256_loadu_si256(as_vector(from)), _mm256_loadu_si256(as_vector(from + 8))};
}
inline void store(int32_t* to, I32x16 a) {
  _mm256_storeu_si256(as_vector(to), a.low);
  _mm256_storeu_si256(as_vector(to + 8), a.high);
}
inline I32x16 broadcast(int32_t value) {
  return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline I32x16 mul(I32x16 a, I32x16 b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
inline F32x16 to_float(I32x16 a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }
inline I32x16 round_to_int(F32x16 a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_cvtps_epi32(_mm256_round_ps(a.low, kNearest)),
          _mm256_cvtps_epi32(_mm256_round_ps(a.high, kNearest))};
}
inline void store_bytes(int8_t* to, I32x16 a) {
  const __m256i low_byte = _mm256_set1_epi32(0xFF);
  const __m256i words =
      _mm256_packus_epi32(_mm256_and_si256(a.low, low_byte), _mm256_and_si256(a.high, low_byte));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xD8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
inline __m256i joined(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i low_byte = _mm256_set1_epi32(0xFF);
  const auto low = [&](__m256i x) { return _mm256_and_si256(x, low_byte); };
  const __m256i two = _mm256_or_si256(low(a), _mm256_slli_epi32(low(b), 8));
  const __m256i others = _mm256_or_si256(low(c), _mm256_slli_epi32(d, 8));
  return _mm256_blend_epi16(two, _mm256_slli_epi32(others, 16), 0xAA);
}
inline I32x16 joined(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return {joined(a.low, b.low, c.low, d.low), joined(a.high, b.high, c.high, d.high)};
}
inline int32_t sum(I32x16 a) {
  const __m256i pairs = _mm256_add_epi32(a.low, a.high);
  __m128i four = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
}
inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline F32x16 power_of_two(I32x16 n) { return {power_of_two(n.low), power_of_two(n.high)}; }
inline __m256 add_exponent(__m256 a, __m256 shifted) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
}
inline F32x16 add_exponent(F32x16 a, F32x16 shifted) {
  return {add_exponent(a.low, shifted.low), add_exponent(a.high, shifted.high)};
}
inline __m256 widen_half(const uint16_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline F32x16 load_half(const uint16_t* from) { return {widen_half(from), widen_half(from + 8)}; }
inline void store_half(uint16_t* to, F32x16 a) {
  __m128i* halves = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(a.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(a.high, _MM_FROUND_TO_NEAREST_INT));
}

using Words = I32x16;
inline Words even_words(const uint8_t* from) {
  const __m256i low_bytes = _mm256_set1_epi16(0xFF);
  return {_mm256_and_si256(_mm256_loadu_si256(as_vector(from)), low_bytes),
          _mm256_and_si256(_mm256_loadu_si256(as_vector(from + 32)), low_bytes)};
}
inline Words odd_words(const uint8_t* from) {
  return {_mm256_srli_epi16(_mm256_loadu_si256(as_vector(from)), 8),
          _mm256_srli_epi16(_mm256_loadu_si256(as_vector(from + 32)), 8)};
}
inline Words even_words(const int8_t* from) {
  const __m256i one = _mm256_set1_epi16(1);
  return {_mm256_maddubs_epi16(one, _mm256_loadu_si256(as_vector(from))),
          _mm256_maddubs_epi16(one, _mm256_loadu_si256(as_vector(from + 32)))};
}
inline Words odd_words(const int8_t* from) {
  return {_mm256_srai_epi16(_mm256_loadu_si256(as_vector(from)), 8),
          _mm256_srai_epi16(_mm256_loadu_si256(as_vector(from + 32)), 8)};
}
/// Of 64 bytes the low or high halves of every second one.
template <int kHalf>
inline Words even_halves(const uint8_t* from) {
  const __m256i low_bits = _mm256_set1_epi16(0x0F);
  const auto words = [&](const uint8_t* at) {
    return _mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256(as_vector(at)), 4 * kHalf),
                            low_bits);
  };
  return {words(from), words(from + 32)};
}
template <int kHalf>
inline Words odd_halves(const uint8_t* from) {
  const __m256i low_bits = _mm256_set1_epi16(0x0F);
  const auto words = [&](const uint8_t* at) {
    return _mm256_and_si256(_mm256_srli_epi16(_mm256_loadu_si256(as_vector(at)), 8 + 4 * kHalf),
                            low_bits);
  };
  return {words(from), words(from + 32)};
}
/// The low and the high halves of 64 bytes.
struct Halves {
  I32x16 low, high;
};
inline Halves load_halves_of(const uint8_t* from) {
  const __m256i low_bits = _mm256_set1_epi8(0x0F);
  const __m256i first = _mm256_loadu_si256(as_vector(from));
  const __m256i second = _mm256_loadu_si256(as_vector(from + 32));
  const auto low = [&](__m256i a) { return _mm256_and_si256(a, low_bits); };
  return {{low(first), low(second)},
          {low(_mm256_srli_epi16(first, 4)), low(_mm256_srli_epi16(second, 4))}};
}
inline __m256i add_halves(__m256i acc, __m256i low, __m256i high, __m256i four, __m256i next) {
  const __m256i pairs =
      _mm256_add_epi16(_mm256_maddubs_epi16(low, four), _mm256_maddubs_epi16(high, next));
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  asm("" : "+x"(acc));  // as in add_pairs()
  return acc;
}
/// acc + each lane's dot products of four low halves and `four`, and of high ones and `next`, bytes
/// of -127 to 127.
inline I32x16 add_halves(I32x16 acc, const Halves& a, int32_t four, int32_t next) {
  const __m256i low = _mm256_set1_epi32(four), high = _mm256_set1_epi32(next);
  return {add_halves(acc.low, a.low.low, a.high.low, low, high),
          add_halves(acc.high, a.low.high, a.high.high, low, high)};
}
inline __m256i paired(__m256i a) {
  return _mm256_or_si256(a, _mm256_slli_epi32(_mm256_shuffle_epi32(a, 0x4E), 16));
}
inline I32x16 paired(I32x16 a) { return {paired(a.low), paired(a.high)}; }
inline __m256i add_pairs(__m256i acc, __m256i a, __m256i factors) {
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(a, factors));
  asm("" : "+x"(acc));  // GCC would first make products of many lines, and spill them
  return acc;
}
inline I32x16 add_pairs(I32x16 acc, Words a, int32_t pair) {
  const __m256i factors = _mm256_set1_epi32(pair);
  return {add_pairs(acc.low, a.low, factors), add_pairs(acc.high, a.high, factors)};
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
