#pragma once

/// \file
/// Panels: blocks of weight rows unpacked to signed bytes in tiles of 64 columns, [16][16][4], the
/// tiles of a block `kStride` bytes apart; where 32 columns are left, the last tile ends with
/// zeros.

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/amx_int8/tiles.h"
#include "kernels/avx512vnni/codes.h"

namespace thimble::kernels::amx_int8 {

constexpr size_t kTileColumns = 64;

/// The place of columns k on, a multiple of kColumnStep, in a panel of columns from `first` on.
template <size_t kStride>
inline uint8_t* panel_at(uint8_t* panel, size_t first, size_t k) {
  return panel + (k - first) / kTileColumns * kStride + (k - first) % kTileColumns * kBlockRows;
}

/// Fills the second half of a panel's last tile with zeros if it is unused.
template <size_t kStride>
inline void end_panel(size_t first, size_t last, uint8_t* panel) {
  if ((last - first) % kTileColumns != 0)
    std::memset(panel_at<kStride>(panel, first, last), 0, kTileBytes / 2);
}

/// The values times the multiples of a block with two levels of scales.
template <size_t kBits, size_t kStride>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t group_size,
                             size_t first, size_t last, uint8_t* panel) {
  const uint8_t* lines = packed + layout.values + first / kColumnStep * step_bytes(kBits);
  size_t group = first / group_size;
  for (size_t k = first; k < last; ++group) {
    const __m512i eight = _mm512_load_si512(packed + layout.scales + group / 8 * kLineBytes);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(group % 8 * 4));
    const GroupFactors<kBits> factors(_mm512_srl_epi32(eight, shift));
    const size_t end = std::min((group + 1) * group_size, last);
    for (; k < end; k += kColumnStep, lines += step_bytes(kBits)) {
      const Codes<kBits> codes(lines);
      uint8_t* to = panel_at<kStride>(panel, first, k);
      unrolled<kColumnStep / 8>([&](auto line) [[gnu::always_inline]] {
        _mm512_store_si512(to + 2 * line * kLineBytes, factors.template low<line>(codes));
        _mm512_store_si512(to + (2 * line + 1) * kLineBytes, factors.template high<line>(codes));
      });
    }
  }
  end_panel<kStride>(first, last, panel);
}

/// The values of an int4 block.
inline void unpack_int4(const uint8_t* lines, size_t columns, uint8_t* panel) {
  const __m512i mask = _mm512_set1_epi8(0x0F), seven = _mm512_set1_epi8(7);
  for (size_t k = 0; k < columns; k += 8, lines += kLineBytes, panel += 2 * kLineBytes) {
    const __m512i pair = _mm512_load_si512(lines);
    const __m512i low = _mm512_and_si512(pair, mask);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(pair, 4), mask);
    _mm512_store_si512(panel, _mm512_sub_epi8(seven, low));
    _mm512_store_si512(panel + kLineBytes, _mm512_sub_epi8(seven, high));
  }
}

/// The values of an int8 block, unchanged.
template <size_t kStride>
inline void unpack_int8(const uint8_t* lines, size_t first, size_t last, uint8_t* panel) {
  for (size_t k = first; k < last; k += kColumnStep)
    std::memcpy(panel_at<kStride>(panel, first, k), lines + k * kBlockRows, kTileBytes / 2);
  end_panel<kStride>(first, last, panel);
}

}  // namespace thimble::kernels::amx_int8
