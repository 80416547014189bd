#pragma once

#include THIMBLE_VARIANT_HEADER

namespace thimble::kernels::THIMBLE_VARIANT {

/// exp(x) within 2 units in the last place for x in [-87, 88]; x is clamped to that range, and a
/// NaN becomes its lower end. exp(0) is 1. Range reduction by log(2) in two parts (Cody and Waite),
/// then the Taylor polynomial of degree 7, whose remainder on |r| <= log(2) / 2 is below 2^-27.
inline F32x16 exponential(F32x16 x) {
  x = min(max(x, broadcast(-87.0f)), broadcast(88.0f));
  const I32x16 n = round_to_int(mul(x, broadcast(0x1.715476p+0f)));
  const F32x16 n_float = to_float(n);
  F32x16 r = fused(n_float, broadcast(-0x1.62e400p-1f), x);
  r = fused(n_float, broadcast(-0x1.7f7d1cp-20f), r);
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  F32x16 p = broadcast(1.0f / 5040);
  for (float coefficient : kTaylor) p = fused(p, r, broadcast(coefficient));
  return mul(p, power_of_two(n));
}

/// exp(x) within 2 units in the last place for x in [-86.5, 0]; below, and for a NaN, exp(-86.5).
/// As exponential(), with fewer steps: adding 1.5 * 2^23 rounds to an integer, and the polynomial
/// is exponential2()'s, of x.
inline F32x16 exponential_below_zero(F32x16 x) {
  const F32x16 shift = broadcast(0x1.8p+23f);
  x = max(x, broadcast(-86.5f));
  const F32x16 shifted = fused(x, broadcast(0x1.715476p+0f), shift);
  const F32x16 n = sub(shifted, shift);
  F32x16 r = fused(n, broadcast(-0x1.62e400p-1f), x);
  r = fused(n, broadcast(-0x1.7f7d1cp-20f), r);
  constexpr float kMinimax[] = {0x1.126782p-7f, 0x1.555822p-5f, 0x1.555418p-3f,
                                0x1.fffffcp-2f, 1.0f,           1.0f};
  F32x16 p = broadcast(0x1.6ae73p-10f);
  for (float coefficient : kMinimax) p = fused(p, r, broadcast(coefficient));
  return add_exponent(p, shifted);
}

/// exp(x) - 1 for x in [-87, 88], to which x is clamped, with a relative error below 5 * 2^-24:
/// (exp(r) - 1) / r is the Taylor polynomial of degree 6, whose remainder is below 2^-26. Exact if
/// x is 0; NaN gives NaN.
inline F32x16 exponential_minus_one(F32x16 x) {
  const F32x16 lowest = broadcast(-87.0f), highest = broadcast(88.0f);
  const F32x16 number = min(max(x, lowest), highest);  // also for a NaN, which has no integer
  const I32x16 n = round_to_int(mul(number, broadcast(0x1.715476p+0f)));
  const F32x16 n_float = to_float(n);
  F32x16 r = fused(n_float, broadcast(-0x1.62e400p-1f), min(highest, max(lowest, x)));
  r = fused(n_float, broadcast(-0x1.7f7d1cp-20f), r);
  constexpr float kTaylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f};
  F32x16 p = broadcast(1.0f / 5040);
  for (float coefficient : kTaylor) p = fused(p, r, broadcast(coefficient));
  const F32x16 power = power_of_two(n);
  return fused(mul(p, r), power, sub(power, broadcast(1.0f)));
}

/// 2^x within 2 units in the last place for x in [-125, 127]; below, and for a
/// NaN, 2^-125. 2^0 is
/// 1. Adding 1.5 * 2^23 rounds to an integer n; the polynomial is the one of
/// degree 6 through 1 with the least relative error for 2^(x - n) on [-0.5,
/// 0.5], below 2^-25.
inline F32x16 exponential2(F32x16 x) {
  const F32x16 shift = broadcast(0x1.8p+23f);
  x = max(x, broadcast(-125.0f));
  const F32x16 shifted = add(x, shift);
  const F32x16 r = sub(x, sub(shifted, shift));
  constexpr float kMinimax[] = {0x1.5f3e54p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f,
                                0x1.ebfbdcp-3f,  0x1.62e430p-1f, 1.0f};
  F32x16 p = broadcast(0x1.41fbbcp-13f);
  for (float coefficient : kMinimax) p = fused(p, r, broadcast(coefficient));
  return add_exponent(p, shifted);
}

/// 255 * 2^(x * scale) with a relative error below 2^-13, for x * scale in [-125, 0]. As
/// exponential2(), with the polynomial of degree 3: enough for what is rounded to a byte.
inline F32x16 exponential2_bytes(F32x16 x, F32x16 scale) {
  const F32x16 shift = broadcast(0x1.8p+23f);
  const F32x16 shifted = fused(x, scale, shift);
  const F32x16 r = fused(x, scale, sub(shift, shifted));
  constexpr float kMinimax[] = {0x1.eeed3cp+5f, 0x1.619028p+7f, 0x1.fdf69cp+7f};
  F32x16 p = broadcast(0x1.c23368p+3f);
  for (float coefficient : kMinimax) p = fused(p, r, broadcast(coefficient));
  return add_exponent(p, shifted);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
