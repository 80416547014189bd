#include <wasm_simd128.h>

#include "bench/limits/limits.h"

namespace thimble::bench {
namespace {

uint64_t read(const uint8_t* data, size_t size) {
  v128_t a = wasm_i64x2_const_splat(0), b = a, c = a, d = a;
  for (size_t i = 0; i < size; i += 64) {
    a = wasm_v128_xor(a, wasm_v128_load(data + i));
    b = wasm_v128_xor(b, wasm_v128_load(data + i + 16));
    c = wasm_v128_xor(c, wasm_v128_load(data + i + 32));
    d = wasm_v128_xor(d, wasm_v128_load(data + i + 48));
  }
  const v128_t all = wasm_v128_xor(wasm_v128_xor(a, b), wasm_v128_xor(c, d));
  return static_cast<uint64_t>(wasm_i64x2_extract_lane(all, 0));
}

#if defined(__wasm_relaxed_simd__)

constexpr size_t kChains = 8;

uint64_t multiply(size_t loops) {
  volatile int8_t three = 3;
  const v128_t x = wasm_i8x16_splat(three), y = wasm_i8x16_splat(three);
  v128_t sums[kChains];
  for (v128_t& sum : sums) sum = x;
  for (; loops > 0; --loops)
    for (v128_t& sum : sums) sum = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, y, sum);
  uint64_t total = 0;
  for (const v128_t& sum : sums) total += static_cast<uint64_t>(wasm_i64x2_extract_lane(sum, 0));
  return total;
}

#endif

}  // namespace

Limits limits(uint32_t) {
#if defined(__wasm_relaxed_simd__)
  return {read, multiply, kChains * 32, "relaxed dot"};
#else
  return {read, nullptr, 0, ""};
#endif
}

Limits limits() { return limits(0); }

}  // namespace thimble::bench
