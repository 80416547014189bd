#pragma once

#include <wasm_simd128.h>

#include <cstdint>

namespace thimble::kernels::THIMBLE_VARIANT {

/// Four columns of an activation, four times.
struct CodeInput {
  v128_t bytes;

  static CodeInput load(const int8_t* from) { return {wasm_v128_load32_splat(from)}; }
};

/// Sums of four weight rows: first two of each row in 16 bits, one over the first two of each four
/// columns, one over the others.
struct CodeSums {
  static constexpr size_t kRegisters = 1;
  /// So many fours fit 16 bits: 8 * 2 * 15 * 128, 4 * 2 * 31 * 128 or 2 * 2 * 63 * 128; of 3 bits
  /// from -8 * 2 * 16 * 128 to 8 * 2 * 16 * 127.
  template <size_t kBits>
  static constexpr size_t kMostFours = kBits <= 4   ? 8
                                       : kBits == 5 ? 4
                                                    : 2;
  v128_t sums = wasm_i32x4_const_splat(0);
  v128_t words = wasm_i16x8_const_splat(0);

  /// Adds the products of four rows by four columns.
  [[gnu::always_inline]] void add(v128_t weights, const CodeInput& input) {
    const v128_t products = wasm_i16x8_relaxed_dot_i8x16_i7x16(input.bytes, weights);
    words = pinned(wasm_i16x8_add(words, products));
  }
  /// Empties the sums in 16 bits.
  template <typename Constants>
  [[gnu::always_inline]] void collect(const Constants& constants) {
    sums = wasm_i32x4_add(sums, wasm_i32x4_dot_i16x8(words, constants.ones));
    words = wasm_i16x8_const_splat(0);
  }
  /// One number of each row.
  [[gnu::always_inline]] v128_t rows() const { return sums; }
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
