#pragma once

/// \file
/// Panels: blocks of weight rows unpacked to signed bytes in tiles of 64 columns, [16][16][4], the
/// tiles of a block `kStride` bytes apart; where 32 columns are left, the last tile ends in zeros.

#include <immintrin.h>

#include <cstring>

#include "kernels/amx_int8/tiles.h"
#include "kernels/layout.h"

namespace thimble::kernels::amx_int8 {

constexpr size_t kTileColumns = 64;

/// Calls `unpack(k, to)` for the column steps from `first` to `last`, multiples of kColumnStep,
/// with the half tile each goes to.
template <size_t kStride, typename Unpack>
inline void for_each_step(size_t first, size_t last, uint8_t* panel, Unpack unpack) {
  for (size_t k = first; k < last; k += kColumnStep)
    unpack(k, panel + (k - first) / kTileColumns * kStride + (k - first) % kTileColumns * 16);
  if ((last - first) % kTileColumns != 0)
    std::memset(panel + (last - first) / kTileColumns * kStride + kTileBytes / 2, 0,
                kTileBytes / 2);
}

/// The multiples of `group` in the four bytes of each weight row.
inline __m512i multiples_of(const uint8_t* scales, size_t group) {
  const __m512i eight = _mm512_load_si512(scales + group / 8 * kLineBytes);
  const __m512i shift = _mm512_set1_epi32(static_cast<int>(group % 8 * 4));
  const __m512i single = _mm512_and_si512(_mm512_srlv_epi32(eight, shift), _mm512_set1_epi32(15));
  const __m512i pair = _mm512_or_si512(single, _mm512_slli_epi32(single, 16));
  return _mm512_or_si512(pair, _mm512_slli_epi16(pair, 8));
}

/// value * multiple of a block, as 7 * multiple - nibble * multiple: a product of at most 225, so
/// that two bytes multiply as one 16-bit number, the high nibbles where they are.
template <size_t kStride>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t group_size,
                             size_t first, size_t last, uint8_t* panel) {
  const __m512i low_mask = _mm512_set1_epi8(0x0F), high_mask = _mm512_set1_epi8(-16);
  const __m512i low_byte = _mm512_set1_epi16(15);
  __m512i low_factor = _mm512_setzero_si512(), high_factor = low_factor, offset = low_factor;
  for_each_step<kStride>(first, last, panel, [&](size_t k, uint8_t* to) {
    if (k == first || k % group_size == 0) {
      const __m512i bytes = multiples_of(packed + layout.scales, k / group_size);
      offset = _mm512_sub_epi8(_mm512_slli_epi32(bytes, 3), bytes);
      low_factor = _mm512_and_si512(bytes, low_byte);
      high_factor = _mm512_slli_epi16(low_factor, 12);  // of high nibbles: 16 * 4096 = 65536
    }
    const uint8_t* lines = packed + layout.values + k * 8;
    for (size_t i = 0; i < kColumnStep / 8; ++i, lines += kLineBytes, to += 2 * kLineBytes) {
      const __m512i pair = _mm512_load_si512(lines);
      const __m512i low = _mm512_mullo_epi16(_mm512_and_si512(pair, low_mask), low_factor);
      const __m512i high = _mm512_mulhi_epu16(_mm512_and_si512(pair, high_mask), high_factor);
      _mm512_store_si512(to, _mm512_sub_epi8(offset, low));
      _mm512_store_si512(to + kLineBytes, _mm512_sub_epi8(offset, high));
    }
  });
}

/// The values of an int4 block.
template <size_t kStride>
inline void unpack_int4(const uint8_t* lines, size_t first, size_t last, uint8_t* panel) {
  const __m512i mask = _mm512_set1_epi8(0x0F), seven = _mm512_set1_epi8(7);
  for_each_step<kStride>(first, last, panel, [&](size_t k, uint8_t* to) {
    const uint8_t* from = lines + k * 8;
    for (size_t i = 0; i < kColumnStep / 8; ++i, from += kLineBytes, to += 2 * kLineBytes) {
      const __m512i pair = _mm512_load_si512(from);
      const __m512i low = _mm512_and_si512(pair, mask);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(pair, 4), mask);
      _mm512_store_si512(to, _mm512_sub_epi8(seven, low));
      _mm512_store_si512(to + kLineBytes, _mm512_sub_epi8(seven, high));
    }
  });
}

/// The values of an int8 block, as they are.
template <size_t kStride>
inline void unpack_int8(const uint8_t* lines, size_t first, size_t last, uint8_t* panel) {
  for_each_step<kStride>(first, last, panel, [&](size_t k, uint8_t* to) {
    const uint8_t* from = lines + k * 16;
    for (size_t i = 0; i < kColumnStep / 4; ++i)
      _mm512_store_si512(to + i * kLineBytes, _mm512_load_si512(from + i * kLineBytes));
  });
}

}  // namespace thimble::kernels::amx_int8
