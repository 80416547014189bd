#pragma once

/// \file
/// 16 floats or int32 as plain loops: the definition of the other vectors_*.h.
/// Operations are IEEE and never contracted; min and max return the second
/// operand when they cannot compare.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/shared/half.h"

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
/// a, which is not loaded anew where it is used again.
inline F32x16 in_register(F32x16 a) { return a; }
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
/// Lane i becomes lane i ^ kApart; 1, 2, 4 or 8.
template <int kApart>
inline F32x16 exchange(F32x16 a) {
  return each([&](int i) { return a.lane[i ^ kApart]; });
}

/// The sum of the lanes: i + (i + 8), then + 4, + 2, + 1 apart.
inline float lane_sum(F32x16 a) {
  for (int apart = 8; apart > 0; apart /= 2)
    for (int i = 0; i < apart; ++i) a.lane[i] += a.lane[i + apart];
  return a.lane[0];
}
/// The largest lane; no lane may be NaN.
inline float lane_max(F32x16 a) {
  for (int apart = 8; apart > 0; apart /= 2)
    for (int i = 0; i < apart; ++i)
      a.lane[i] = a.lane[i] > a.lane[i + apart] ? a.lane[i] : a.lane[i + apart];
  return a.lane[0];
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
/// Rounds to nearest, ties to even; the numbers must fit int32.
inline I32x16 round_to_int(F32x16 a) {
  I32x16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<int32_t>(std::nearbyint(a.lane[i]));
  return result;
}
/// The low byte of each lane.
inline void store_bytes(int8_t* to, I32x16 a) {
  for (int i = 0; i < 16; ++i) to[i] = static_cast<int8_t>(a.lane[i]);
}
/// The low bytes of the lanes of four, side by side.
inline I32x16 joined(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  I32x16 result;
  for (int i = 0; i < 16; ++i) {
    const int32_t lanes[] = {a.lane[i], b.lane[i], c.lane[i], d.lane[i]};
    int8_t bytes[4];
    for (int byte = 0; byte < 4; ++byte) bytes[byte] = static_cast<int8_t>(lanes[byte]);
    std::memcpy(&result.lane[i], bytes, sizeof bytes);
  }
  return result;
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
/// a * 2^n, a normal number like a, of `shifted` = n + 1.5 * 2^23, whose lowest
/// bits are n's.
inline F32x16 add_exponent(F32x16 a, F32x16 shifted) {
  return each([&](int i) {
    uint32_t bits, n;
    std::memcpy(&bits, &a.lane[i], sizeof bits);
    std::memcpy(&n, &shifted.lane[i], sizeof n);
    return float_of_bits(bits + (n << 23));
  });
}
inline F32x16 load_half(const uint16_t* from) {
  return each([&](int i) { return half_to_float(from[i]); });
}
/// To nearest, ties to even.
inline void store_half(uint16_t* to, F32x16 a) {
  for (int i = 0; i < 16; ++i) to[i] = float_to_half(a.lane[i]);
}

/// Two words for each lane: of 64 bytes every second one, from the first or the second on.
struct Words {
  int16_t word[32];
};
template <typename Byte>
inline Words even_words(const Byte* from) {
  Words words;
  for (int i = 0; i < 32; ++i) words.word[i] = from[2 * i];
  return words;
}
template <typename Byte>
inline Words odd_words(const Byte* from) {
  return even_words(from + 1);
}
/// The same of the low or high halves of the bytes.
template <int kHalf>
inline Words even_halves(const uint8_t* from) {
  Words words;
  for (int i = 0; i < 32; ++i) words.word[i] = from[2 * i] >> 4 * kHalf & 0x0F;
  return words;
}
template <int kHalf>
inline Words odd_halves(const uint8_t* from) {
  return even_halves<kHalf>(from + 1);
}
/// Lanes, 0 to 2^15 - 1, in pairs: of every four, the first and the third in the first, the others
/// in the second.
inline I32x16 paired(I32x16 a) {
  for (int i = 0; i < 16; i += 4) {
    a.lane[i] |= a.lane[i + 2] << 16;
    a.lane[i + 1] |= a.lane[i + 3] << 16;
  }
  return a;
}
/// acc + the products of each lane's two words and those of `pair`.
inline I32x16 add_pairs(I32x16 acc, const Words& a, int32_t pair) {
  const int32_t first = static_cast<int16_t>(pair), second = pair >> 16;
  for (int i = 0; i < 16; ++i) acc.lane[i] += a.word[2 * i] * first + a.word[2 * i + 1] * second;
  return acc;
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
