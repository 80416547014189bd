#pragma once

#include <wasm_simd128.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

/// Four columns of an activation, in both halves as 16 bits.
struct ByteInput {
  v128_t words;

  static ByteInput load(const int8_t* from) {
    return {wasm_i16x8_extend_low_i8x16(wasm_v128_load32_splat(from))};
  }
};

/// Sums of four weight rows: two of each row, rows 0 and 1 first.
struct ByteSums {
  static constexpr size_t kRegisters = 2;
  /// Fours of columns after which codes of so many bits need collect().
  template <size_t kBits>
  static constexpr size_t kMostFours = 8;
  v128_t first = wasm_i32x4_const_splat(0), second = wasm_i32x4_const_splat(0);

  /// Adds the products of four rows by four columns.
  [[gnu::always_inline]] void add(v128_t weights, const ByteInput& input) {
    const v128_t low = wasm_i16x8_extend_low_i8x16(weights);
    const v128_t high = wasm_i16x8_extend_high_i8x16(weights);
    first = wasm_i32x4_add(first, wasm_i32x4_dot_i16x8(low, input.words));
    second = wasm_i32x4_add(second, wasm_i32x4_dot_i16x8(high, input.words));
  }
  template <typename Constants>
  void collect(const Constants&) {}
  /// One number of each row.
  [[gnu::always_inline]] v128_t rows() const {
    return wasm_i32x4_add(wasm_i32x4_shuffle(first, second, 0, 2, 4, 6),
                          wasm_i32x4_shuffle(first, second, 1, 3, 5, 7));
  }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
