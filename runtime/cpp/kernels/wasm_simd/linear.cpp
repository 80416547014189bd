#include <wasm_simd128.h>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"
#include "kernels/wasm_simd/dot_bytes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kQuadBytes = 16;  // of a line: 4 weight rows by 4 columns
constexpr size_t kQuads = 4;
/// Registers for sums.
constexpr size_t kSums = 8;

/// Up to four rows of a tile of kMr.
template <size_t kMr>
struct Rows {
  static constexpr size_t kCount = kMr < 4 ? kMr : 4;
  const int8_t* x;
  const int32_t* bias;
  const float* group_scales;

  /// \param first a row of the tile that starts with row m.
  Rows(const QuantizedRows& rows, size_t m, size_t first)
      : x(rows.values + m * rows.columns + first * 4),
        bias(rows.group_bias + m * (rows.columns / kColumnStep) + first),
        group_scales(rows.group_size == 0
                         ? nullptr
                         : rows.group_scales + m * (rows.columns / rows.group_size) + first) {}

  /// Four columns, from k on, of a row.
  template <typename Input>
  [[gnu::always_inline]] Input load(size_t k, size_t row) const {
    return Input::load(x + k * kMr + row * 4);
  }
};

/// As many weight rows, in fours, as fit the registers.
template <typename Sums, size_t kMr>
constexpr size_t kQuadsAtOnce = kSums / (Sums::kRegisters * Rows<kMr>::kCount) < kQuads
                                    ? kSums / (Sums::kRegisters * Rows<kMr>::kCount)
                                    : kQuads;

/// The codes of 4 weight rows by columns 4 * kQuad .. + 3 of kColumnStep.
/// \param four where these rows are in the step's first line.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline v128_t codes(const uint8_t* four) {
  const v128_t bytes = wasm_v128_load(four + kQuad / 2 * kLineBytes);
  const v128_t code =
      kQuad % 2 == 0 ? wasm_v128_and(bytes, wasm_u8x16_const_splat(15)) : wasm_u8x16_shr(bytes, 4);
  if constexpr (kBits == 4) return code;
  constexpr size_t kAt = kQuad * (kBits - 4);
  v128_t upper = wasm_v128_load(four + (4 + kAt / 8) * kLineBytes);
  if constexpr (kAt % 8 < 4) upper = wasm_i8x16_shl(upper, 4 - kAt % 8);
  if constexpr (kAt % 8 > 4) upper = wasm_u8x16_shr(upper, kAt % 8 - 4);
  return wasm_v128_or(code, wasm_v128_and(upper, wasm_u8x16_const_splat((1 << kBits) - 16)));
}

/// The integer dot products of a group, negative because a code is the largest value less the
/// value.
template <size_t kBits, size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_codes(const uint8_t* lines, const Rows<kMr>& rows, size_t k,
                                             size_t group_size,
                                             v128_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  CodeSums sums[kCount][kRows];
  int32_t bias[kRows] = {};
  for (const size_t end = k + group_size; k < end; k += kColumnStep, lines += step_bytes(kBits)) {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      bias[r] += offset_bias<largest_value(kBits)>(rows.bias[k / kColumnStep * kMr + r]);
    });
    unrolled<kColumnStep / 4>([&](auto i) [[gnu::always_inline]] {
      CodeInput x[kRows];
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        x[r] = rows.template load<CodeInput>(k + 4 * i, r);
      });
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const v128_t weights = codes<kBits, i>(lines + q * kQuadBytes);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] { sums[q][r].add(weights, x[r]); });
      });
    });
  }
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      acc[q][r] = wasm_i32x4_add(sums[q][r].rows(), wasm_i32x4_splat(bias[r]));
    });
  });
}

/// The integer dot products of int8 columns from `first` to before `last`.
template <size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_bytes(const uint8_t* lines, const Rows<kMr>& rows,
                                             size_t first, size_t last,
                                             v128_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  ByteSums sums[kCount][kRows];
  for (size_t k = first; k < last; k += 4) {
    ByteInput x[kRows];
    unrolled<kRows>([&](auto r)
                        [[gnu::always_inline]] { x[r] = rows.template load<ByteInput>(k, r); });
    unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
      const v128_t weights = wasm_v128_load(lines + k * kBlockRows + q * kQuadBytes);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] { sums[q][r].add(weights, x[r]); });
    });
  }
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] { acc[q][r] = sums[q][r].rows(); });
  });
}

template <size_t kBits>
struct TwoLevel {
  using Totals = I32x16;
  using Sums = CodeSums;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t group_size = args.weight.group_size;
    const uint8_t* scales =
        packed + layout.scales + quad * kQuadBytes + columns.first / group_size / 8 * kLineBytes;
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    v128_t total[kCount][kRows], multiples[kCount];
    unrolled<kCount>([&](auto q) {
      multiples[q] = wasm_i32x4_const_splat(0);
      unrolled<kRows>([&](auto r) { total[q][r] = wasm_i32x4_const_splat(0); });
    });
    for (size_t k = columns.first, group = 0; k < columns.last; k += group_size, ++group) {
      if (group % 8 == 0) {
        unrolled<kCount>([&](auto q) { multiples[q] = wasm_v128_load(scales + q * kQuadBytes); });
        scales += kLineBytes;
      }
      v128_t acc[kCount][kRows];
      dot_codes<kBits>(lines + k / kColumnStep * step_bytes(kBits), rows, k, group_size, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const v128_t multiple = wasm_v128_and(multiples[q], wasm_i32x4_const_splat(15));
        multiples[q] = wasm_u32x4_shr(multiples[q], 4);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[q][r] = wasm_i32x4_sub(total[q][r], wasm_i32x4_mul(acc[q][r], multiple));
        });
      });
    }
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

struct Int8 {
  using Totals = I32x16;
  using Sums = ByteSums;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    v128_t total[kCount][kRows];
    dot_bytes(lines, rows, columns.first, columns.last, total);
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

/// A format whose groups have float16 scales; `dot(k, acc)` gives the integers of a group.
template <size_t kMr, size_t kCount, typename Dot>
[[gnu::always_inline]] inline void add_groups(const LinearArgs& args, const BlockLayout& layout,
                                              const uint8_t* packed, const Rows<kMr>& rows,
                                              size_t quad, Dot dot,
                                              F32x16 (&totals)[Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  const size_t group_size = args.weight.group_size;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales) + quad * 4;
  v128_t total[kCount][kRows];
  unrolled<kCount>(
      [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = wasm_f32x4_const_splat(0); }); });
  for (size_t k = 0; k < args.weight.columns; k += group_size, scales += kBlockRows) {
    v128_t acc[kCount][kRows];
    dot(k, acc);
    unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
      const v128_t scale = widen_half(scales + 4 * q);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const v128_t of_input = wasm_f32x4_splat(rows.group_scales[k / group_size * kMr + r]);
        total[q][r] = fused_four(wasm_f32x4_convert_i32x4(acc[q][r]),
                                 wasm_f32x4_mul(scale, of_input), total[q][r]);
      });
    });
  }
  unrolled<kCount>(
      [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
}

struct Int4Groups {
  using Totals = F32x16;
  using Sums = CodeSums;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    const auto dot = [&](size_t k, v128_t(&acc)[kCount][Rows<kMr>::kCount]) {
      dot_codes<4>(lines + k / kColumnStep * step_bytes(4), rows, k, args.weight.group_size, acc);
      for (auto& of_rows : acc)
        for (v128_t& sums : of_rows) sums = wasm_i32x4_neg(sums);
    };
    add_groups<kMr, kCount>(args, layout, packed, rows, quad, dot, totals);
  }
};

struct Int8Groups {
  using Totals = F32x16;
  using Sums = ByteSums;

  template <size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, Totals (&totals)[Rows<kMr>::kCount]) {
    const uint8_t* lines = packed + layout.values + quad * kQuadBytes;
    const auto dot = [&](size_t k, v128_t(&acc)[kCount][Rows<kMr>::kCount]) {
      dot_bytes(lines, rows, k, k + args.weight.group_size, acc);
    };
    add_groups<kMr, kCount>(args, layout, packed, rows, quad, dot, totals);
  }
};

/// Every tile of activations times a block of weights, which stays in the caches.
template <typename Format, size_t kMr>
void multiply(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  constexpr size_t kRows = Rows<kMr>::kCount;
  constexpr size_t kCount = kQuadsAtOnce<typename Format::Sums, kMr>;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    for (size_t m = 0; m < args.x.rows; m += kRows) {
      const Rows<kMr> rows(args.x, m / kMr * kMr, m % kMr);
      typename Format::Totals totals[kRows];
      for (size_t quad = 0; quad < kQuads; quad += kCount)
        Format::template run<kMr, kCount>(args, layout, packed, rows, quad, totals);
      for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
        store_totals(args, m + r, block, totals[r], packed);
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

void matvec_int4_two_level(const LinearArgs& args) { matvec<TwoLevel<4>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { matvec<TwoLevel<5>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { matvec<TwoLevel<6>>(args); }
void matvec_int4(const LinearArgs& args) { matvec<Int4Groups>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }
void matvec_int8_groups(const LinearArgs& args) { matvec<Int8Groups>(args); }

void matmul_int4_two_level(const LinearArgs& args) { multiply<TwoLevel<4>, kTile.mr>(args); }
void matmul_int5_two_level(const LinearArgs& args) { multiply<TwoLevel<5>, kTile.mr>(args); }
void matmul_int6_two_level(const LinearArgs& args) { multiply<TwoLevel<6>, kTile.mr>(args); }
void matmul_int4(const LinearArgs& args) { multiply<Int4Groups, kTile.mr>(args); }
void matmul_int8(const LinearArgs& args) { multiply<Int8, kTile.mr>(args); }
void matmul_int8_groups(const LinearArgs& args) { multiply<Int8Groups, kTile.mr>(args); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
