#pragma once

#include THIMBLE_VARIANT_HEADER

namespace thimble::kernels::THIMBLE_VARIANT {

/// exp(x) within 2 units in the last place for x in [-87, 88]; x is brought into that range, and a
/// NaN to its lower end. exp(0) is 1. Range reduction by log(2) in two parts (Cody and Waite),
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

}  // namespace thimble::kernels::THIMBLE_VARIANT
