#pragma once

/// \file
/// 16 floats or int32 as plain loops: what the other vectors_*.h mean. Operations are IEEE and
/// never contracted; min and max return the second operand when they cannot compare.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

namespace thimble::kernels::THIMBLE_VARIANT {

struct F32x16 {
  float lane[16];
};
struct I32x16 {
  int32_t lane[16];
};

template <typename Operation>
inline F32x16 each(Operation operation) {
  F32x16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = operation(i);
  return result;
}

inline F32x16 load(const float* from) {
  return each([&](int i) { return from[i]; });
}
inline void store(float* to, F32x16 a) { std::memcpy(to, a.lane, sizeof a.lane); }
inline F32x16 broadcast(float value) {
  return each([&](int) { return value; });
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
/// a * b + c, rounded once.
inline F32x16 fused(F32x16 a, F32x16 b, F32x16 c) {
  return each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}

inline I32x16 load(const int32_t* from) {
  I32x16 result;
  std::memcpy(result.lane, from, sizeof result.lane);
  return result;
}
inline void store(int32_t* to, I32x16 a) { std::memcpy(to, a.lane, sizeof a.lane); }
inline I32x16 broadcast(int32_t value) {
  I32x16 result;
  for (int32_t& lane : result.lane) lane = value;
  return result;
}
inline I32x16 add(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}
inline I32x16 mul(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] *= b.lane[i];
  return a;
}
inline F32x16 to_float(I32x16 a) {
  return each([&](int i) { return static_cast<float>(a.lane[i]); });
}
/// To nearest, ties to even; of numbers that int32 holds.
inline I32x16 round_to_int(F32x16 a) {
  I32x16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<int32_t>(std::nearbyint(a.lane[i]));
  return result;
}
/// The low byte of each lane.
inline void store_bytes(int8_t* to, I32x16 a) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<int8_t>(a.lane[i]);
}
/// 16 bfloat16.
inline F32x16 load_bfloat16(const uint16_t* from) {
  return each([&](int i) {
    const uint32_t bits = static_cast<uint32_t>(from[i]) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  });
}
inline int32_t sum(I32x16 a) {
  int32_t total = 0;
  for (int32_t lane : a.lane) total += lane;
  return total;
}
/// 2^n, for n in -126..127.
inline F32x16 power_of_two(I32x16 n) {
  return each([&](int i) {
    const int32_t bits = (n.lane[i] + 127) << 23;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  });
}
inline F32x16 load_half(const uint16_t* from) {
  return each([&](int i) { return half_to_float(from[i]); });
}
/// To nearest, ties to even.
inline void store_half(uint16_t* to, F32x16 a) {
  for (int i = 0; i < 16; ++i) to[i] = float_to_half(a.lane[i]);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
