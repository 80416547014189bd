#pragma once

/// \file
/// vectors_scalar.h in WebAssembly's SIMD: four registers. The variant has fused_four().

#include <wasm_simd128.h>

#include <cstdint>

#include "kernels/shared/half.h"

namespace thimble::kernels::THIMBLE_VARIANT {

struct F32x16 {
  v128_t part[4];
};
struct I32x16 {
  v128_t part[4];
};

/// A value that the compiler does not know. Engines make a constant anew at each of its uses; what
/// is known only at run time is computed once, before a loop.
[[gnu::always_inline]] inline v128_t held(v128_t value) {
  asm("" : "+r"(value));
  return value;
}
/// The same value; what is pinned is computed in the order in which the program says it.
[[gnu::always_inline]] inline v128_t pinned(v128_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
[[gnu::always_inline]] inline v128_t held_ints(int32_t value) {
  return held(wasm_i32x4_splat(value));
}
[[gnu::always_inline]] inline v128_t held_floats(float value) {
  return held(wasm_f32x4_splat(value));
}

template <typename Operation>
inline F32x16 each(Operation operation) {
  return {{operation(0), operation(1), operation(2), operation(3)}};
}
template <typename Operation>
inline I32x16 each_int(Operation operation) {
  return {{operation(0), operation(1), operation(2), operation(3)}};
}

inline F32x16 load(const float* from) {
  return each([&](int i) { return wasm_v128_load(from + 4 * i); });
}
inline void store(float* to, F32x16 a) {
  for (int i = 0; i < 4; ++i) wasm_v128_store(to + 4 * i, a.part[i]);
}
inline F32x16 in_register(F32x16 a) { return a; }
inline F32x16 broadcast(float value) {
  const v128_t four = held_floats(value);
  return each([&](int) { return four; });
}
inline F32x16 add(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_add(a.part[i], b.part[i]); });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_sub(a.part[i], b.part[i]); });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_mul(a.part[i], b.part[i]); });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_div(a.part[i], b.part[i]); });
}
inline F32x16 fused(F32x16 a, F32x16 b, F32x16 c) {
  return each([&](int i) { return fused_four(a.part[i], b.part[i], c.part[i]); });
}
// WebAssembly's pmin(x, y) is y < x ? y : x.
inline F32x16 min(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_pmin(b.part[i], a.part[i]); });
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return each([&](int i) { return wasm_f32x4_pmax(b.part[i], a.part[i]); });
}
template <int kApart>
inline F32x16 exchange(F32x16 a) {
  if constexpr (kApart >= 4) return each([&](int i) { return a.part[i ^ (kApart / 4)]; });
  return each([&](int i) {
    return kApart == 1 ? wasm_i32x4_shuffle(a.part[i], a.part[i], 1, 0, 3, 2)
                       : wasm_i32x4_shuffle(a.part[i], a.part[i], 2, 3, 0, 1);
  });
}

inline float lane_sum(F32x16 a) {
  const v128_t four =
      wasm_f32x4_add(wasm_f32x4_add(a.part[0], a.part[2]), wasm_f32x4_add(a.part[1], a.part[3]));
  const v128_t two = wasm_f32x4_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(two, 0) + wasm_f32x4_extract_lane(two, 1);
}
inline float lane_max(F32x16 a) {
  const auto larger = [](v128_t x, v128_t y) { return wasm_f32x4_pmax(y, x); };
  const v128_t four = larger(larger(a.part[0], a.part[2]), larger(a.part[1], a.part[3]));
  const v128_t two = larger(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
  return wasm_f32x4_extract_lane(larger(two, wasm_i32x4_shuffle(two, two, 1, 0, 3, 2)), 0);
}

inline I32x16 load(const int32_t* from) {
  return each_int([&](int i) { return wasm_v128_load(from + 4 * i); });
}
inline void store(int32_t* to, I32x16 a) {
  for (int i = 0; i < 4; ++i) wasm_v128_store(to + 4 * i, a.part[i]);
}
inline I32x16 broadcast(int32_t value) {
  const v128_t four = held_ints(value);
  return each_int([&](int) { return four; });
}
inline I32x16 add(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return wasm_i32x4_add(a.part[i], b.part[i]); });
}
inline I32x16 sub(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return wasm_i32x4_sub(a.part[i], b.part[i]); });
}
inline I32x16 mul(I32x16 a, I32x16 b) {
  return each_int([&](int i) { return wasm_i32x4_mul(a.part[i], b.part[i]); });
}
inline F32x16 to_float(I32x16 a) {
  return each([&](int i) { return wasm_f32x4_convert_i32x4(a.part[i]); });
}
inline I32x16 round_to_int(F32x16 a) {
  return each_int([&](int i) { return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a.part[i])); });
}
inline void store_bytes(int8_t* to, I32x16 a) {
  const auto low_bytes = [](v128_t x) { return wasm_v128_and(x, held_ints(255)); };
  const v128_t low = wasm_u16x8_narrow_i32x4(low_bytes(a.part[0]), low_bytes(a.part[1]));
  const v128_t high = wasm_u16x8_narrow_i32x4(low_bytes(a.part[2]), low_bytes(a.part[3]));
  wasm_v128_store(to, wasm_u8x16_narrow_i16x8(low, high));
}
inline I32x16 joined(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  const auto low = [](v128_t x) { return wasm_v128_and(x, held_ints(255)); };
  return each_int([&](int i) {
    const v128_t two = wasm_v128_or(low(a.part[i]), wasm_i32x4_shl(low(b.part[i]), 8));
    const v128_t others = wasm_v128_or(low(c.part[i]), wasm_i32x4_shl(d.part[i], 8));
    return wasm_v128_or(two, wasm_i32x4_shl(others, 16));
  });
}
inline int32_t sum(I32x16 a) {
  const v128_t four =
      wasm_i32x4_add(wasm_i32x4_add(a.part[0], a.part[1]), wasm_i32x4_add(a.part[2], a.part[3]));
  const v128_t two = wasm_i32x4_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 0, 1));
  return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}
inline F32x16 power_of_two(I32x16 n) {
  return each([&](int i) { return wasm_i32x4_shl(wasm_i32x4_add(n.part[i], held_ints(127)), 23); });
}
inline F32x16 add_exponent(F32x16 a, F32x16 shifted) {
  return each(
      [&](int i) { return wasm_i32x4_add(a.part[i], wasm_i32x4_shl(shifted.part[i], 23)); });
}

/// Of widen_half(), to be made before a loop.
struct HalfConstants {
  v128_t bits = held_ints(static_cast<int>(0x8FFFE000));
  v128_t size = held_ints(0x0FFFE000);
  v128_t largest = held_ints(0x0F7FFFFF);
  v128_t infinity = held_ints(0x7F800000);
  v128_t factor = held_floats(0x1p+112f);
};
/// half_to_float() of four: exponents are 112 too small, which a product mends, also of denormals,
/// but for infinities and NaN, which are told apart first. The product makes a NaN quiet.
[[gnu::always_inline]] inline v128_t widen_half(const uint16_t* from,
                                                const HalfConstants& constants) {
  const v128_t moved = wasm_i32x4_shl(wasm_i32x4_load16x4(from), 13);  // with copies of the sign
  const v128_t half = wasm_v128_and(moved, constants.bits);
  const v128_t special = wasm_i32x4_gt(wasm_v128_and(half, constants.size), constants.largest);
  return wasm_f32x4_mul(wasm_v128_or(half, wasm_v128_and(special, constants.infinity)),
                        constants.factor);
}
inline F32x16 load_half(const uint16_t* from) {
  const HalfConstants constants;
  return each([&](int i) { return widen_half(from + 4 * i, constants); });
}
/// float_to_half() of four.
inline v128_t narrow_half(v128_t value) {
  const v128_t magnitude = wasm_v128_and(value, held_ints(0x7FFFFFFF));
  const v128_t sign = wasm_v128_and(wasm_u32x4_shr(value, 16), held_ints(0x8000));
  const v128_t high = wasm_u32x4_shr(magnitude, 13);
  const v128_t odd = wasm_v128_and(high, held_ints(1));
  const v128_t rounding = wasm_i32x4_add(odd, held_ints(0xFFF - 0x38000000));
  v128_t half = wasm_u32x4_shr(wasm_i32x4_add(magnitude, rounding), 13);
  const v128_t denormal =
      wasm_i32x4_sub(wasm_f32x4_add(magnitude, held_floats(0.5f)), held_ints(0x3F000000));
  half = wasm_v128_bitselect(denormal, half, wasm_i32x4_lt(magnitude, held_ints(0x38800000)));
  half =
      wasm_v128_bitselect(held_ints(0x7C00), half, wasm_i32x4_gt(magnitude, held_ints(0x477FEFFF)));
  const v128_t payload = wasm_v128_or(wasm_v128_and(high, held_ints(0x3FF)), held_ints(0x7E00));
  half = wasm_v128_bitselect(payload, half, wasm_i32x4_gt(magnitude, held_ints(0x7F800000)));
  return wasm_v128_or(sign, half);
}
inline void store_half(uint16_t* to, F32x16 a) {
  for (int i = 0; i < 4; i += 2) {
    const v128_t halves =
        wasm_u16x8_narrow_i32x4(narrow_half(a.part[i]), narrow_half(a.part[i + 1]));
    wasm_v128_store(to + 4 * i, halves);
  }
}

struct Words {
  v128_t part[4];
};
template <typename Operation>
inline Words each_line(const void* from, Operation operation) {
  const v128_t* parts = static_cast<const v128_t*>(from);
  return {{operation(wasm_v128_load(parts)), operation(wasm_v128_load(parts + 1)),
           operation(wasm_v128_load(parts + 2)), operation(wasm_v128_load(parts + 3))}};
}
inline Words even_words(const uint8_t* from) {
  return each_line(from, [](v128_t a) { return wasm_v128_and(a, wasm_i16x8_splat(0xFF)); });
}
inline Words odd_words(const uint8_t* from) {
  return each_line(from, [](v128_t a) { return wasm_u16x8_shr(a, 8); });
}
inline Words even_words(const int8_t* from) {
  return each_line(from, [](v128_t a) { return wasm_i16x8_shr(wasm_i16x8_shl(a, 8), 8); });
}
inline Words odd_words(const int8_t* from) {
  return each_line(from, [](v128_t a) { return wasm_i16x8_shr(a, 8); });
}
template <int kHalf>
inline Words even_halves(const uint8_t* from) {
  return each_line(from, [](v128_t a) {
    return wasm_v128_and(wasm_u16x8_shr(a, 4 * kHalf), wasm_i16x8_splat(0x0F));
  });
}
template <int kHalf>
inline Words odd_halves(const uint8_t* from) {
  return each_line(from, [](v128_t a) {
    return wasm_v128_and(wasm_u16x8_shr(a, 8 + 4 * kHalf), wasm_i16x8_splat(0x0F));
  });
}
inline I32x16 paired(I32x16 a) {
  return each_int([&](int i) {
    const v128_t others = wasm_i32x4_shuffle(a.part[i], a.part[i], 2, 3, 0, 1);
    return wasm_v128_or(a.part[i], wasm_i32x4_shl(others, 16));
  });
}
inline I32x16 add_pairs(I32x16 acc, Words a, int32_t pair) {
  const v128_t factors = wasm_i32x4_splat(pair);
  return each_int(
      [&](int i) { return wasm_i32x4_add(acc.part[i], wasm_i32x4_dot_i16x8(a.part[i], factors)); });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
