#pragma once

#include <arm_neon.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/layout/layout.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// The codes of 4 weight rows by columns 4 * kQuad .. + 3 of kColumnStep.
/// \param four where these rows are in the step's first line.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline int8x16_t codes(const uint8_t* four) {
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
