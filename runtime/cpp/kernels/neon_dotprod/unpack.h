#pragma once

#include <arm_neon.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/layout/layout.h"
#include "kernels/shared/nibble_table.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Looks nibbles up in drops_by_nibble().
template <size_t kBits, size_t kHalf, size_t kFirst>
[[gnu::always_inline]] inline uint8x16_t drops_of(uint8x16_t nibbles) {
  static constexpr NibbleTable kTable = drops_by_nibble(kBits, kHalf, kFirst);
  return vqtbl1q_u8(vld1q_u8(kTable.bytes), nibbles);
}

/// Of 2 or 3 bits: a nibble has the low bits of two codes.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline uint8x16_t drops(const uint8_t* four) {
  const uint8x16_t bytes = vld1q_u8(four + kQuad / 4 * kLineBytes);
  const uint8x16_t nibbles = kQuad % 4 < 2 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4);
  const uint8x16_t drops = drops_of<kBits, kQuad % 2, 0>(nibbles);
  if constexpr (kBits == 2) return drops;
  const uint8x16_t is_upper = vtstq_u8(vld1q_u8(four + 2 * kLineBytes), vdupq_n_u8(1 << kQuad));
  return vbslq_u8(is_upper, drops_of<kBits, kQuad % 2, kBits == 3 ? 4 : 0>(nibbles), drops);
}

/// The codes, as drop_of() each, of 4 weight rows by columns 4 * kQuad .. + 3 of kColumnStep.
/// \param four where these rows are in the step's first line.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline int8x16_t codes(const uint8_t* four) {
  if constexpr (kBits < 4) return vreinterpretq_s8_u8(drops<kBits, kQuad>(four));
  const uint8x16_t bytes = vld1q_u8(four + kQuad / 2 * kLineBytes);
  uint8x16_t code = kQuad % 2 == 0 ? vandq_u8(bytes, vdupq_n_u8(15)) : vshrq_n_u8(bytes, 4);
  if constexpr (kBits > 4) {
    constexpr size_t kAt = kQuad * (kBits - 4);
    uint8x16_t upper = vld1q_u8(four + (4 + kAt / 8) * kLineBytes);
    if constexpr (kAt % 8 < 4) upper = vshlq_n_u8(upper, 4 - kAt % 8);
    if constexpr (kAt % 8 > 4) upper = vshrq_n_u8(upper, kAt % 8 - 4);
    code = vbslq_u8(vdupq_n_u8((1 << kBits) - 16), upper, code);
  }
  return vreinterpretq_s8_u8(code);
}

/// Calls `write(low, high)` with value * multiple of 4 weight rows at a time, by 4 columns and the
/// next 4, in the order of the lines.
template <size_t kBits, typename Write>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t columns,
                             size_t group_size, Write write) {
  const uint32_t* scales = reinterpret_cast<const uint32_t*>(packed + layout.scales);
  const uint8_t* lines = packed + layout.values;
  const int8x16_t largest = vdupq_n_s8(largest_value(kBits));
  for (size_t k = 0; k < columns; k += kColumnStep, lines += step_bytes(kBits)) {
    const size_t group = k / group_size;
    const int32x4_t shift = vdupq_n_s32(-4 * static_cast<int32_t>(group % 8));
    int8x16_t multiples[4];
    for (size_t quad = 0; quad < 4; ++quad) {
      const uint32x4_t eight = vld1q_u32(scales + group / 8 * kBlockRows + 4 * quad);
      const uint32x4_t single = vandq_u32(vshlq_u32(eight, shift), vdupq_n_u32(15));
      multiples[quad] = vreinterpretq_s8_u32(vmulq_n_u32(single, 0x01010101u));
    }
    unrolled<kColumnStep / 8>([&](auto line) [[gnu::always_inline]] {
      for (size_t quad = 0; quad < 4; ++quad) {
        const int8x16_t low = codes<kBits, 2 * line>(lines + 16 * quad);
        const int8x16_t high = codes<kBits, 2 * line + 1>(lines + 16 * quad);
        write(vmulq_s8(vsubq_s8(largest, low), multiples[quad]),
              vmulq_s8(vsubq_s8(largest, high), multiples[quad]));
      }
    });
  }
}

/// Calls `write(low, high)` with the values of an int4 block in the same way.
template <typename Write>
inline void unpack_int4(const uint8_t* lines, size_t columns, Write write) {
  const int8x16_t seven = vdupq_n_s8(7);
  for (size_t quad = 0; quad < columns / 8 * 4; ++quad) {
    const uint8_t* four = lines + 16 * quad;
    write(vsubq_s8(seven, codes<4, 0>(four)), vsubq_s8(seven, codes<4, 1>(four)));
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
