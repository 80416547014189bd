#pragma once

#include <wasm_simd128.h>

namespace thimble::kernels::THIMBLE_VARIANT {

/// a * b + c of two doubles that are floats, as a double that rounds to the float that fma() gives:
/// the product is exact, and the sum is rounded to odd (Boldo and Melquiond, 2008).
inline v128_t fused_two(v128_t a, v128_t b, v128_t c) {
  const v128_t product = wasm_f64x2_mul(a, b), sum = wasm_f64x2_add(product, c);
  // The error of the sum, exactly (Knuth's two-sum).
  const v128_t added = wasm_f64x2_sub(sum, product);
  const v128_t error =
      wasm_f64x2_add(wasm_f64x2_sub(product, wasm_f64x2_sub(sum, added)), wasm_f64x2_sub(c, added));
  // An inexact sum whose last bit is even moves one step towards the error: away from zero if the
  // signs are equal. Zeros, infinities and NaN have no such error.
  const v128_t zero = wasm_i64x2_const_splat(0), one = wasm_i64x2_const_splat(1);
  const v128_t inexact = wasm_v128_or(wasm_f64x2_lt(error, zero), wasm_f64x2_gt(error, zero));
  const v128_t even = wasm_i64x2_eq(wasm_v128_and(sum, one), zero);
  const v128_t step = wasm_v128_or(wasm_i64x2_shr(wasm_v128_xor(sum, error), 63), one);
  return wasm_i64x2_add(sum, wasm_v128_and(step, wasm_v128_and(inexact, even)));
}

/// a * b + c of four floats, rounded once.
inline v128_t fused_four(v128_t a, v128_t b, v128_t c) {
  const auto low = [](v128_t x) { return wasm_f64x2_promote_low_f32x4(x); };
  const auto high = [](v128_t x) {
    return wasm_f64x2_promote_low_f32x4(wasm_i32x4_shuffle(x, x, 2, 3, 2, 3));
  };
  return wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(fused_two(low(a), low(b), low(c))),
                            wasm_f32x4_demote_f64x2_zero(fused_two(high(a), high(b), high(c))), 0,
                            2);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
