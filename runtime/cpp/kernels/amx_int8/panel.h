#pragma once

/// \file
/// Panels: blocks of weight rows unpacked to signed bytes in tiles of 64 columns, [16][16][4], the
/// tiles of a block `kStride` bytes apart; where 32 columns are left, the last tile ends with
/// zeros.

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/amx_int8/tiles.h"
#include "kernels/layout/layout.h"

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

/// Constants to unpack the nibbles of a group: value * multiple = 7 * multiple - nibble * multiple.
/// The last product is at most 225, so that two bytes multiply as one 16-bit number, with high
/// nibbles left in place.
struct GroupFactors {
  __m512i offset;  ///< 7 * multiple in each byte
  __m512i low;     ///< multiple in each word
  __m512i high;  ///< multiple * 4096: a high nibble is 16 times too large, and the product is taken
                 ///< modulo 65536

  GroupFactors(const uint8_t* scales, size_t group) {
    const __m512i eight = _mm512_load_si512(scales + group / 8 * kLineBytes);
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(group % 8 * 4));
    const __m512i single = _mm512_and_si512(_mm512_srl_epi32(eight, shift), _mm512_set1_epi32(15));
    low = _mm512_or_si512(single, _mm512_slli_epi32(single, 16));
    high = _mm512_slli_epi16(low, 12);
    const __m512i bytes = _mm512_or_si512(low, _mm512_slli_epi16(low, 8));
    offset = _mm512_sub_epi8(_mm512_slli_epi32(bytes, 3), bytes);
  }
};

/// The values times the multiples of a block.
template <size_t kStride>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t group_size,
                             size_t first, size_t last, uint8_t* panel) {
  const __m512i low_mask = _mm512_set1_epi8(0x0F), high_mask = _mm512_set1_epi8(-16);
  const uint8_t* lines = packed + layout.values + first * 8;
  size_t group = first / group_size;
  for (size_t k = first; k < last; ++group) {
    const GroupFactors factors(packed + layout.scales, group);
    const size_t end = std::min((group + 1) * group_size, last);
    for (; k < end; k += kColumnStep) {
      uint8_t* to = panel_at<kStride>(panel, first, k);
      for (size_t i = 0; i < kColumnStep / 8; ++i, lines += kLineBytes, to += 2 * kLineBytes) {
        const __m512i pair = _mm512_load_si512(lines);
        const __m512i low = _mm512_mullo_epi16(_mm512_and_si512(pair, low_mask), factors.low);
        const __m512i high = _mm512_mulhi_epu16(_mm512_and_si512(pair, high_mask), factors.high);
        _mm512_store_si512(to, _mm512_sub_epi8(factors.offset, low));
        _mm512_store_si512(to + kLineBytes, _mm512_sub_epi8(factors.offset, high));
      }
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
