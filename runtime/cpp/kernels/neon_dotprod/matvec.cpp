#include <arm_neon.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/epilogue.h"
#include "kernels/functions.h"
#include "kernels/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kQuadBytes = 16;  // of a line: 4 weight rows by 4 columns
constexpr size_t kQuads = 4;
constexpr size_t kPrefetchBytes = 2048;

/// kRows plain rows from `first` on; those of the last again beyond `count`.
template <size_t kRows>
struct Rows {
  const int8_t* x[kRows];
  const int32_t* bias[kRows];

  Rows(const QuantizedRows& rows, size_t first, size_t count) {
    unrolled<kRows>([&](auto r) {
      const size_t row = first + (r < count ? r : count - 1);
      x[r] = rows.values + row * rows.columns;
      bias[r] = rows.group_bias + row * (rows.columns / kColumnStep);
    });
  }
};

/// As many weight rows at once as there are registers for.
template <size_t kRows>
constexpr size_t kQuadsAtOnce = kRows == 1 ? 4 : 2;

/// Adds to acc the dot products of nibbles (0..15) with kColumnStep columns of kRows rows.
template <size_t kRows, size_t kCount>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const Rows<kRows>& rows, size_t k,
                                            int32x4_t (&acc)[kCount][kRows]) {
  unrolled<2>([&](auto half) [[gnu::always_inline]] {
    int8x16_t x[kRows];
    unrolled<kRows>([&](auto r)
                        [[gnu::always_inline]] { x[r] = vld1q_s8(rows.x[r] + k + 16 * half); });
    unrolled<2>([&](auto i) [[gnu::always_inline]] {
      const uint8_t* line = lines + (2 * half + i) * kLineBytes;
      __builtin_prefetch(line + kPrefetchBytes);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const uint8x16_t bytes = vld1q_u8(line + q * kQuadBytes);
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15)));
        const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4));
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          acc[q][r] = vdotq_laneq_s32(acc[q][r], low, x[r], 2 * i);
          acc[q][r] = vdotq_laneq_s32(acc[q][r], high, x[r], 2 * i + 1);
        });
      });
    });
  });
}

/// The integer dot products of a group.
template <size_t kRows, size_t kCount>
[[gnu::always_inline]] inline void dot_group(const uint8_t* lines, const Rows<kRows>& rows,
                                             size_t k, size_t group_size,
                                             int32x4_t (&acc)[kCount][kRows]) {
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] { acc[q][r] = vdupq_n_s32(0); });
  });
  for (const size_t end = k + group_size; k < end; k += kColumnStep) {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const int32x4_t bias = vld1q_dup_s32(rows.bias[r] + k / kColumnStep);
      unrolled<kCount>([&](auto q)
                           [[gnu::always_inline]] { acc[q][r] = vaddq_s32(acc[q][r], bias); });
    });
    dot_step<kRows, kCount>(lines, rows, k, acc);
    lines += kColumnStep / 8 * kLineBytes;
  }
}

struct TwoLevel {
  using Totals = I32x16;

  template <size_t kRows, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kRows>& rows, size_t quad, Totals (&totals)[kRows]) {
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const uint8_t* scales = packed + layout.scales + quad * kQuadBytes;
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    int32x4_t total[kCount][kRows];
    uint32x4_t multiples[kCount];
    unrolled<kCount>([&](auto q) {
      multiples[q] = vdupq_n_u32(0);
      unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_s32(0); });
    });
    for (size_t k = 0, group = 0; k < columns; k += group_size, ++group) {
      if (group % 8 == 0) {
        unrolled<kCount>([&](auto q) {
          multiples[q] = vld1q_u32(reinterpret_cast<const uint32_t*>(scales) + 4 * q);
        });
        scales += kLineBytes;
      }
      int32x4_t acc[kCount][kRows];
      dot_group<kRows, kCount>(lines + k * 8, rows, k, group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const int32x4_t multiple = vreinterpretq_s32_u32(vandq_u32(multiples[q], vdupq_n_u32(15)));
        multiples[q] = vshrq_n_u32(multiples[q], 4);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[q][r] = vmlaq_s32(total[q][r], acc[q][r], multiple);
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

struct Plain {
  using Totals = F32x16;

  template <size_t kRows, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kRows>& rows, size_t quad, Totals (&totals)[kRows]) {
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales) + quad * 4;
    float32x4_t total[kCount][kRows];
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_f32(0); }); });
    for (size_t k = 0; k < columns; k += group_size, scales += kBlockRows) {
      int32x4_t acc[kCount][kRows];
      dot_group<kRows, kCount>(lines + k * 8, rows, k, group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const float32x4_t scale = widen_bfloat16(scales + 4 * q);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[q][r] = vaddq_f32(total[q][r], vmulq_f32(vcvtq_f32_s32(acc[q][r]), scale));
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

struct Int8 {
  using Totals = I32x16;

  template <size_t kRows, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kRows>& rows, size_t quad, Totals (&totals)[kRows]) {
    const int8_t* lines = reinterpret_cast<const int8_t*>(packed + layout.values);
    int32x4_t total[kCount][kRows];
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_s32(0); }); });
    for (size_t k = 0; k < args.weight.columns; k += 16) {
      int8x16_t x[kRows];
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] { x[r] = vld1q_s8(rows.x[r] + k); });
      unrolled<4>([&](auto i) [[gnu::always_inline]] {
        __builtin_prefetch(lines + kPrefetchBytes);
        unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
          const int8x16_t weights = vld1q_s8(lines + (quad + q) * kQuadBytes);
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            total[q][r] = vdotq_laneq_s32(total[q][r], weights, x[r], i);
          });
        });
        lines += kLineBytes;
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

template <typename Format, size_t kRows>
void some_rows(const LinearArgs& args, const BlockLayout& layout, size_t block, size_t first,
               size_t count) {
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  const Rows<kRows> rows(args.x, first, count);
  typename Format::Totals totals[kRows];
  for (size_t quad = 0; quad < kQuads; quad += kQuadsAtOnce<kRows>)
    Format::template run<kRows, kQuadsAtOnce<kRows>>(args, layout, packed, rows, quad, totals);
  for (size_t r = 0; r < count; ++r)
    store_outputs(args, first + r, block, scaled(totals[r], args.x.params[first + r], packed));
}

template <typename Format>
void matvec(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block)
    for (size_t first = 0; first < args.x.rows; first += 4) {
      const size_t left = args.x.rows - first;
      if (left == 1) {
        some_rows<Format, 1>(args, layout, block, first, 1);
      } else if (left == 2) {
        some_rows<Format, 2>(args, layout, block, first, 2);
      } else {
        some_rows<Format, 4>(args, layout, block, first, left < 4 ? left : 4);
      }
    }
}

}  // namespace

void matvec_int4_two_level(const LinearArgs& args) { matvec<TwoLevel>(args); }
void matvec_int4(const LinearArgs& args) { matvec<Plain>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
