#pragma once

/// \file
/// The products of attention in WebAssembly's SIMD. Its engines have 15 registers on x86 and do not
/// move loads, so that each four lanes are loaded where they are multiplied.

#include <wasm_simd128.h>

#include <cstddef>
#include <cstdint>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

[[gnu::always_inline]] inline v128_t load_four(const float* from, const HalfConstants&) {
  return wasm_v128_load(from);
}
[[gnu::always_inline]] inline v128_t load_four(const uint16_t* from,
                                               const HalfConstants& constants) {
  return widen_half(from, constants);
}
/// acc[r] = numbers[i * number_step + r * row_step] * (16 elements from i * element_step on) +
/// acc[r], fused, for i from 0 to before `count`, in order.
template <size_t kRows, typename Element>
inline void add_products(const float* numbers, size_t number_step, size_t row_step,
                         const Element* elements, size_t element_step, size_t count,
                         F32x16 (&acc)[kRows]) {
  const HalfConstants constants;
  const auto add_one = [&]() [[gnu::always_inline]] {
    v128_t number[kRows];
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      number[r] = wasm_v128_load32_splat(numbers + r * row_step);
    });
    unrolled<4>([&](auto p) [[gnu::always_inline]] {
      const v128_t four = load_four(elements + 4 * p, constants);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        acc[r].part[p] = pinned(fused_four(number[r], four, acc[r].part[p]));
      });
    });
    numbers += number_step;
    elements += element_step;
  };
  for (; count >= 2; count -= 2) {
    add_one();
    add_one();
  }
  if (count > 0) add_one();
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
