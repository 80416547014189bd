#pragma once

/// \file
/// IEEE half precision without CPU instructions for it.

#include <cstdint>
#include <cstring>

namespace thimble::kernels {

inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3FF;
  if (exponent == 0) {  // zero or denormal: mantissa * 2^-24, exactly
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) {  // infinity, or a quiet NaN
    const uint32_t quiet = mantissa != 0 ? 0x400000 : 0;
    return float_of_bits(sign | 0x7F800000 | quiet | mantissa << 13);
  }
  return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

/// To nearest, ties to even.
inline uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000)
    return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);  // rounds to infinity
  if (magnitude < 0x38800000) {  // denormal: adding 0.5 rounds to steps of 2^-24
    float rounded = float_of_bits(magnitude) + 0.5f;
    uint32_t rounded_bits;
    std::memcpy(&rounded_bits, &rounded, sizeof rounded_bits);
    return static_cast<uint16_t>(sign | (rounded_bits - 0x3F000000));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xFFF + odd) >> 13));
}

}  // namespace thimble::kernels
