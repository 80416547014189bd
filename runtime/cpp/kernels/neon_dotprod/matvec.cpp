#include <arm_neon.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/neon_dotprod/unpack.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kQuadBytes = 16;  // of a line: 4 weight rows by 4 columns
constexpr size_t kQuads = 4;
constexpr size_t kPrefetchBytes = 2048;

/// Up to four rows of a tile of kMr. The 16 bytes of a vector are 4 columns of 4 rows, or 8 of 2,
/// or 16 of 1.
template <size_t kMr>
struct Rows {
  static constexpr size_t kCount = kMr < 4 ? kMr : 4;
  const int8_t* x;
  const int32_t* bias;
  const float* group_scales;

  Rows(const QuantizedRows& rows, size_t first)
      : x(rows.values + first * 4),
        bias(rows.group_bias + first),
        group_scales(rows.group_size == 0 ? nullptr : rows.group_scales + first) {}

  /// 16 columns from k on.
  [[gnu::always_inline]] void load(size_t k, int8x16_t (&vectors)[kCount]) const {
    unrolled<kCount>([&](auto i) [[gnu::always_inline]] {
      vectors[i] = vld1q_s8(x + k * kMr + i * (kMr < 4 ? 16 : 4 * kMr));
    });
  }
  /// acc + weights . four columns (the `four`-th of the 16) of row r.
  template <size_t kFour, size_t kRow>
  [[gnu::always_inline]] static int32x4_t dot(int32x4_t acc, int8x16_t weights,
                                              const int8x16_t (&vectors)[kCount]) {
    constexpr size_t kPlace = kFour * kCount + kRow;
    return vdotq_laneq_s32(acc, weights, vectors[kPlace / 4], kPlace % 4);
  }
};

/// As many weight rows at once as fit the registers.
template <size_t kMr>
constexpr size_t kQuadsAtOnce = kMr == 1 ? 4 : 2;

/// The integer dot products of a group, negative because a code is the largest value less the
/// value.
template <size_t kBits, size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_group(const uint8_t* lines, const Rows<kMr>& rows, size_t k,
                                             size_t group_size,
                                             int32x4_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] { acc[q][r] = vdupq_n_s32(0); });
  });
  for (const size_t end = k + group_size; k < end; k += kColumnStep, lines += step_bytes(kBits)) {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const int32_t* sum = rows.bias + k / kColumnStep * kMr + r;
      const int32x4_t bias = largest_value(kBits) == 7
                                 ? vld1q_dup_s32(sum)
                                 : vdupq_n_s32(offset_bias<largest_value(kBits)>(*sum));
      unrolled<kCount>([&](auto q)
                           [[gnu::always_inline]] { acc[q][r] = vaddq_s32(acc[q][r], bias); });
    });
    unrolled<2>([&](auto half) [[gnu::always_inline]] {
      int8x16_t x[kRows];
      rows.load(k + 16 * half, x);
      unrolled<4>([&](auto i) [[gnu::always_inline]] {
        constexpr size_t kQuad = 4 * half + i;
        if constexpr (kQuad < kBits)
          __builtin_prefetch(lines + kQuad * kLineBytes + kPrefetchBytes);
        unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
          const int8x16_t weights = codes<kBits, kQuad>(lines + q * kQuadBytes);
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            acc[q][r] = Rows<kMr>::template dot<i, r>(acc[q][r], weights, x);
          });
        });
      });
    });
  }
}

template <size_t kBits>
struct TwoLevel {
  using Totals = I32x16;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t group_size = args.weight.group_size;
    const uint8_t* scales =
        packed + layout.scales + quad * kQuadBytes + columns.first / group_size / 8 * kLineBytes;
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    int32x4_t total[kCount][kRows];
    uint32x4_t multiples[kCount];
    unrolled<kCount>([&](auto q) {
      multiples[q] = vdupq_n_u32(0);
      unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_s32(0); });
    });
    for (size_t k = columns.first, group = 0; k < columns.last; k += group_size, ++group) {
      if (group % 8 == 0) {
        unrolled<kCount>([&](auto q) {
          multiples[q] = vld1q_u32(reinterpret_cast<const uint32_t*>(scales) + 4 * q);
        });
        scales += kLineBytes;
      }
      int32x4_t acc[kCount][kRows];
      dot_group<kBits>(lines + k / kColumnStep * step_bytes(kBits), rows, k, group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const int32x4_t multiple = vreinterpretq_s32_u32(vandq_u32(multiples[q], vdupq_n_u32(15)));
        multiples[q] = vshrq_n_u32(multiples[q], 4);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[q][r] = vmlsq_s32(total[q][r], acc[q][r], multiple);
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

struct Plain {
  using Totals = F32x16;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales) + quad * 4;
    float32x4_t total[kCount][kRows];
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_f32(0); }); });
    for (size_t k = 0; k < columns; k += group_size, scales += kBlockRows) {
      int32x4_t acc[kCount][kRows];
      dot_group<4>(lines + k / kColumnStep * step_bytes(4), rows, k, group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const float32x4_t scale = widen_half(scales + 4 * q);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const float32x4_t both = vmulq_n_f32(scale, rows.group_scales[k / group_size * kMr + r]);
          total[q][r] = vfmsq_f32(total[q][r], vcvtq_f32_s32(acc[q][r]), both);
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

/// Adds a block's int8 columns from `first` to before `last`. Moves `lines` on.
template <size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_columns(const int8_t*& lines, const Rows<kMr>& rows,
                                               size_t first, size_t last,
                                               int32x4_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  for (size_t k = first; k < last; k += 16) {
    int8x16_t x[kRows];
    rows.load(k, x);
    unrolled<4>([&](auto i) [[gnu::always_inline]] {
      __builtin_prefetch(lines + kPrefetchBytes);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const int8x16_t weights = vld1q_s8(lines + q * kQuadBytes);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          acc[q][r] = Rows<kMr>::template dot<i, r>(acc[q][r], weights, x);
        });
      });
      lines += kLineBytes;
    });
  }
}

struct Int8 {
  using Totals = I32x16;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const int8_t* lines = reinterpret_cast<const int8_t*>(packed + layout.values) +
                          columns.first * kBlockRows + quad * kQuadBytes;
    int32x4_t total[kCount][kRows];
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_s32(0); }); });
    dot_columns<kMr, kCount>(lines, rows, columns.first, columns.last, total);
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

struct Int8Groups {
  using Totals = F32x16;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const size_t group_size = args.weight.group_size;
    const int8_t* lines =
        reinterpret_cast<const int8_t*>(packed + layout.values) + quad * kQuadBytes;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales) + quad * 4;
    float32x4_t total[kCount][kRows];
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = vdupq_n_f32(0); }); });
    for (size_t k = 0; k < args.weight.columns; k += group_size, scales += kBlockRows) {
      int32x4_t acc[kCount][kRows];
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] { acc[q][r] = vdupq_n_s32(0); });
      });
      dot_columns<kMr, kCount>(lines, rows, k, k + group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const float32x4_t scale = widen_half(scales + 4 * q);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const float32x4_t both = vmulq_n_f32(scale, rows.group_scales[k / group_size * kMr + r]);
          total[q][r] = vfmaq_f32(total[q][r], vcvtq_f32_s32(acc[q][r]), both);
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

template <typename Format, size_t kMr>
void multiply(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  constexpr size_t kRows = Rows<kMr>::kCount;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    for (size_t first = 0; first < args.x.rows; first += kRows) {
      const Rows<kMr> rows(args.x, first);
      typename Format::Totals totals[kRows];
      for (size_t quad = 0; quad < kQuads; quad += kQuadsAtOnce<kMr>)
        Format::template run<kMr, kQuadsAtOnce<kMr>>(args, layout, packed, rows, quad, totals);
      for (size_t r = 0; r < kRows && first + r < args.x.rows; ++r)
        store_totals(args, first + r, block, totals[r], packed);
    }
  }
}

template <typename Format>
void matvec(const LinearArgs& args) {
  switch (args.x.tile.mr) {
    case 1:
      return multiply<Format, 1>(args);
    case 2:
      return multiply<Format, 2>(args);
    case 4:
      return multiply<Format, 4>(args);
    default:
      return multiply<Format, kMatvecRows>(args);
  }
}

}  // namespace

void matvec_int2_two_level(const LinearArgs& args) { matvec<TwoLevel<2>>(args); }
void matvec_int3_two_level(const LinearArgs& args) { matvec<TwoLevel<3>>(args); }
void matvec_int4_two_level(const LinearArgs& args) { matvec<TwoLevel<4>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { matvec<TwoLevel<5>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { matvec<TwoLevel<6>>(args); }
void matvec_int4(const LinearArgs& args) { matvec<Plain>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }
void matvec_int8_groups(const LinearArgs& args) { matvec<Int8Groups>(args); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
