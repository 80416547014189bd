#pragma once

/// \file
/// Panels: two blocks of weight rows unpacked to unsigned bytes, [columns / 4][2][16][4], which
/// stay in the second-level cache while every tile of activations passes over them.

#include <immintrin.h>

#include "kernels/avx512vnni/codes.h"

namespace thimble::kernels::avx512vnni {

constexpr size_t kPanelBlocks = 2;
constexpr size_t kPanelStep = kPanelBlocks * kLineBytes;  ///< bytes for 4 columns

/// value + 8 of an int4 block: a nibble is 7 - value.
inline void unpack_int4(const uint8_t* lines, size_t columns, uint8_t* panel) {
  const __m512i mask = _mm512_set1_epi8(0x0F), ones = _mm512_set1_epi8(-1);
  for (size_t k = 0; k < columns; k += 8, lines += kLineBytes, panel += 2 * kPanelStep) {
    const __m512i bytes = _mm512_xor_si512(_mm512_load_si512(lines), ones);
    _mm512_store_si512(panel, _mm512_and_si512(bytes, mask));
    _mm512_store_si512(panel + kPanelStep, _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask));
  }
}

/// value * multiple + 128 of a block with two levels of scales.
template <size_t kBits>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t columns,
                             size_t group_size, uint8_t* panel) {
  const uint8_t* scales = packed + layout.scales;
  const uint8_t* lines = packed + layout.values;
  __m512i multiples = _mm512_setzero_si512();
  for (size_t k = 0, group = 0; k < columns; k += group_size, ++group) {
    if (group % 8 == 0) {
      multiples = _mm512_load_si512(scales);
      scales += kLineBytes;
    }
    GroupFactors<kBits> factors(multiples);
    factors.add(-128);
    multiples = _mm512_srli_epi32(multiples, 4);
    for (size_t i = 0; i < group_size; i += kColumnStep, lines += step_bytes(kBits)) {
      const Codes<kBits> codes(lines);
      unrolled<kColumnStep / 8>([&](auto line) [[gnu::always_inline]] {
        _mm512_store_si512(panel, factors.template low<line>(codes));
        _mm512_store_si512(panel + kPanelStep, factors.template high<line>(codes));
        panel += 2 * kPanelStep;
      });
    }
  }
}

/// value + 128 of an int8 block.
inline void unpack_int8(const uint8_t* lines, size_t columns, uint8_t* panel) {
  const __m512i flip = _mm512_set1_epi8(-128);
  for (size_t k = 0; k < columns; k += 4, lines += kLineBytes, panel += kPanelStep)
    _mm512_store_si512(panel, _mm512_xor_si512(_mm512_load_si512(lines), flip));
}

}  // namespace thimble::kernels::avx512vnni
