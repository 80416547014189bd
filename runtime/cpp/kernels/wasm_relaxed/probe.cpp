#include "kernels/wasm_relaxed/probe.h"

#include <wasm_simd128.h>

namespace thimble::kernels::wasm_relaxed {

bool madd_is_fused() {
  // The square of 1 + 2^-12 is 1 + 2^-11 + 2^-24, whose last term a rounding loses.
  volatile float root = 1.0f + 0x1p-12f, rounded = 1.0f + 0x1p-11f;
  const v128_t a = wasm_f32x4_splat(root), c = wasm_f32x4_splat(-rounded);
  return wasm_f32x4_extract_lane(wasm_f32x4_relaxed_madd(a, a, c), 0) == 0x1p-24f;
}

}  // namespace thimble::kernels::wasm_relaxed
