#include "kernels/wasm_relaxed/probe.h"

#include <wasm_simd128.h>

#include <cstdint>

namespace thimble::kernels::wasm_relaxed {

bool madd_is_fused() {
  // The square of 1 + 2^-12 is 1 + 2^-11 + 2^-24, whose last term a rounding loses.
  volatile float root = 1.0f + 0x1p-12f, rounded = 1.0f + 0x1p-11f;
  const v128_t a = wasm_f32x4_splat(root), c = wasm_f32x4_splat(-rounded);
  return wasm_f32x4_extract_lane(wasm_f32x4_relaxed_madd(a, a, c), 0) == 0x1p-24f;
}

bool dot_is_in_pairs() {
  volatile int8_t value = 127, code = -1;  // 255, where codes have no sign
  const v128_t dot = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(
      wasm_i8x16_splat(value), wasm_i8x16_splat(code), wasm_i32x4_const_splat(0));
  return wasm_i32x4_extract_lane(dot, 0) == 2 * INT16_MAX;
}

}  // namespace thimble::kernels::wasm_relaxed
