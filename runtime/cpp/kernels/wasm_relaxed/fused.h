#pragma once

#include <wasm_simd128.h>

namespace thimble::kernels::THIMBLE_VARIANT {

/// a * b + c of four floats, rounded once: where it is not, cpu_features() lacks kWasmRelaxed.
inline v128_t fused_four(v128_t a, v128_t b, v128_t c) { return wasm_f32x4_relaxed_madd(a, b, c); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
