#pragma once

#include <arm_neon.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/layout/layout.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Nibbles (0..15) of 4 weight rows: 4 columns each, and the next 4.
struct Nibbles {
  int8x16_t low;
  int8x16_t high;

  explicit Nibbles(const uint8_t* quad) {
    const uint8x16_t bytes = vld1q_u8(quad);
    low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
    high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
  }
};

/// Calls `write(low, high)` with value * multiple of 4 weight rows at a time, by 4 columns and the
/// next 4, in the order of the lines.
template <typename Write>
inline void unpack_two_level(const uint8_t* packed, const BlockLayout& layout, size_t columns,
                             size_t group_size, Write write) {
  const uint32_t* scales = reinterpret_cast<const uint32_t*>(packed + layout.scales);
  const uint8_t* lines = packed + layout.values;
  const int8x16_t seven = vdupq_n_s8(7);
  for (size_t k = 0; k < columns; k += 8, lines += kLineBytes) {
    const size_t group = k / group_size;
    const int32x4_t shift = vdupq_n_s32(-4 * static_cast<int32_t>(group % 8));
    for (size_t quad = 0; quad < 4; ++quad) {
      const uint32x4_t multiples = vld1q_u32(scales + group / 8 * kBlockRows + 4 * quad);
      const uint32x4_t single = vandq_u32(vshlq_u32(multiples, shift), vdupq_n_u32(15));
      const int8x16_t bytes = vreinterpretq_s8_u32(vmulq_n_u32(single, 0x01010101u));
      const Nibbles nibbles(lines + 16 * quad);
      write(vmulq_s8(vsubq_s8(seven, nibbles.low), bytes),
            vmulq_s8(vsubq_s8(seven, nibbles.high), bytes));
    }
  }
}

/// Calls `write(low, high)` with the values of an int4 block in the same way.
template <typename Write>
inline void unpack_int4(const uint8_t* lines, size_t columns, Write write) {
  const int8x16_t seven = vdupq_n_s8(7);
  for (size_t quad = 0; quad < columns / 8 * 4; ++quad) {
    const Nibbles nibbles(lines + 16 * quad);
    write(vsubq_s8(seven, nibbles.low), vsubq_s8(seven, nibbles.high));
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
