#pragma once

/// \file
/// vectors_scalar.h in Arm NEON: four registers.

#include <arm_neon.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

struct F32x16 {
  float32x4_t part[4];
};
struct I32x16 {
  int32x4_t part[4];
};

template <typename Operation>
inline F32x16 each(Operation operation) {
  return {{operation(0), operation(1), operation(2), operation(3)}};
}
template <typename Operation>
inline I32x16 each_int(Operation operation) {
  return {{operation(0), operation(1), operation(2), operation(3)}};
}

inline F32x16 load(const float* from) {
  return each([&](int i) { return vld1q_f32(from + 4 * i); });
}
inline void store(float* to, F32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, a.part[i]);
}
inline F32x16 in_register(F32x16 a) { return a; }
inline F32x16 broadcast(float value) {
  return each([&](int) { return vdupq_n_f32(value); });
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return each([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return each([&](int i) { return vsubq_f32(a.part[i], b.part[i]); });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return each([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return each([&](int i) { return vdivq_f32(a.part[i], b.part[i]); });
}
inline F32x16 fused(F32x16 a, F32x16 b, F32x16 c) {
  return each([&](int i) { return vfmaq_f32(c.part[i], a.part[i], b.part[i]); });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return each(
      [&](int i) { return vbslq_f32(vcltq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]); });
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return each(
      [&](int i) { return vbslq_f32(vcgtq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]); });
}
template <int kApart>
inline F32x16 exchange(F32x16 a) {
  if constexpr (kApart >= 4) return each([&](int i) { return a.part[i ^ (kApart / 4)]; });
  return each([&](int i) {
    return kApart == 1 ? vrev64q_f32(a.part[i]) : vextq_f32(a.part[i], a.part[i], 2);
  });
}

inline float lane_sum(F32x16 a) {
  const float32x4_t four =
      vaddq_f32(vaddq_f32(a.part[0], a.part[2]), vaddq_f32(a.part[1], a.part[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
inline float lane_max(F32x16 a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.part[0], a.part[2]), vmaxq_f32(a.part[1], a.part[3])));
}

inline I32x16 load(const int32_t* from) {
  return each_int([&](int i) { return vld1q_s32(from + 4 * i); });
}
inline void store(int32_t* to, I32x16 a) {
  for (int i = 0; i < 4; ++i) vst1q_s32(to + 4 * i, a.part[i]);
}
inline I32x16 broadcast(int32_t value) {
  return each_int([&](int) { return vdupq_n_s32(value); });
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return vaddq_s32(a.part[i], b.part[i]); });
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return vsubq_s32(a.part[i], b.part[i]); });
}
inline I32x16 mul(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return vmulq_s32(a.part[i], b.part[i]); });
}
inline F32x16 to_float(I32x16 a) {
  return each([&](int i) { return vcvtq_f32_s32(a.part[i]); });
}
inline I32x16 round_to_int(F32x16 a) {
  return each_int([&](int i) { return vcvtnq_s32_f32(a.part[i]); });
}
inline void store_bytes(int8_t* to, I32x16 a) {
  const int16x8_t low = vcombine_s16(vmovn_s32(a.part[0]), vmovn_s32(a.part[1]));
  const int16x8_t high = vcombine_s16(vmovn_s32(a.part[2]), vmovn_s32(a.part[3]));
  vst1q_s8(to, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}
inline I32x16 joined(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return each_int([&](int i) {
    const int32x4_t two = vsliq_n_s32(a.part[i], b.part[i], 8);
    return vsliq_n_s32(vsliq_n_s32(two, c.part[i], 16), d.part[i], 24);
  });
}
inline int32_t sum(I32x16 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.part[0], a.part[1]), vaddq_s32(a.part[2], a.part[3])));
}
inline F32x16 power_of_two(I32x16 n) {
  return each([&](int i) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.part[i], vdupq_n_s32(127)), 23));
  });
}
inline F32x16 add_exponent(F32x16 a, F32x16 shifted) {
  return each([&](int i) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(shifted.part[i]), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(a.part[i]), exponent));
  });
}
inline float32x4_t widen_half(const uint16_t* from) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
}
inline F32x16 load_half(const uint16_t* from) {
  return each([&](int i) { return widen_half(from + 4 * i); });
}
inline void store_half(uint16_t* to, F32x16 a) {
  for (int i = 0; i < 4; ++i) vst1_u16(to + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.part[i])));
}

/// Lanes shifted to the right; they may not be negative.
template <int kBits>
inline I32x16 shift_right(I32x16 a) {
  return each_int([&](int i) { return vshrq_n_s32(a.part[i], kBits); });
}

/// Four bytes for each lane.
struct Bytes {
  int8x16_t part[4];
};
template <typename Operation>
inline Bytes each_bytes(Operation operation) {
  return {{operation(0), operation(1), operation(2), operation(3)}};
}
inline Bytes load_bytes(const int8_t* from) {
  return each_bytes([&](int i) { return vld1q_s8(from + 16 * i); });
}
/// The low or high halves of 64 bytes.
template <int kHalf>
inline Bytes load_halves(const uint8_t* from) {
  return each_bytes([&](int i) {
    const uint8x16_t bytes = vld1q_u8(from + 16 * i);
    return vreinterpretq_s8_u8(kHalf == 0 ? vandq_u8(bytes, vdupq_n_u8(0x0F))
                                          : vshrq_n_u8(bytes, 4));
  });
}
/// acc + the products of each lane's four bytes and those of `four`, which are 0 to 127.
inline I32x16 add_products(I32x16 acc, Bytes a, int32_t four) {
  const int8x16_t factors = vreinterpretq_s8_s32(vdupq_n_s32(four));
  return each_int([&](int i) { return vdotq_s32(acc.part[i], a.part[i], factors); });
}
/// For sums of products of bytes that are stored plus 128: what such a sum begins with, of the sum
/// of its other factors; the bytes; and the sum, with four factors, -127 to 127, more.
inline I32x16 begin_biased(int32_t /*sum*/) { return broadcast(int32_t{0}); }
/// The same where such bytes stand for themselves.
inline I32x16 begin_unsigned(int32_t sum) { return broadcast(128 * sum); }
inline Bytes load_biased(const uint8_t* from) {
  const uint8x16_t bias = vdupq_n_u8(128);
  return each_bytes(
      [&](int i) { return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(from + 16 * i), bias)); });
}
inline I32x16 add_biased(I32x16 acc, Bytes a, int32_t four) { return add_products(acc, a, four); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
