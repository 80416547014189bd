#pragma once

#include <wasm_simd128.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

/// Four columns of an activation, four times.
struct CodeInput {
  v128_t bytes;

  static CodeInput load(const int8_t* from) { return {wasm_v128_load32_splat(from)}; }
};

/// Sums of four weight rows. Codes are below 128, so that every engine gives the same product.
struct CodeSums {
  static constexpr size_t kRegisters = 1;
  /// Fours of columns after which codes of so many bits need collect().
  template <size_t kBits>
  static constexpr size_t kMostFours = 8;
  v128_t sums = wasm_i32x4_const_splat(0);

  /// Adds the products of four rows by four columns.
  [[gnu::always_inline]] void add(v128_t weights, const CodeInput& input) {
    sums = wasm_i32x4_relaxed_dot_i8x16_i7x16_add(input.bytes, weights, sums);
  }
  template <typename Constants>
  void collect(const Constants&) {}
  /// One number of each row.
  [[gnu::always_inline]] v128_t rows() const { return sums; }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
