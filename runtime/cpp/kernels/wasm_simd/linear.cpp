#include <wasm_simd128.h>

#include <type_traits>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/nibble_table.h"
#include "kernels/shared/unrolled.h"
#include "kernels/wasm_simd/dot_bytes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kQuadBytes = 16;  // of a line: 4 weight rows by 4 columns
constexpr size_t kQuads = 4;
/// Constants are made anew at each use, unless they are known before the loops.
struct Constants {
  v128_t nibbles = held_ints(0x0F0F0F0F);
  v128_t fifth_bits = held_ints(0x10101010);
  v128_t upper_bits = held_ints(0x30303030);
  v128_t multiples = held_ints(15);
  v128_t ones = held_ints(0x00010001);  ///< in 16 bits
  HalfConstants halves;
};

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
};

/// As many weight rows, in fours, as fit the registers.
template <typename Sums, size_t kMr>
constexpr size_t kQuadsAtOnce = kSums / (Sums::kRegisters * Rows<kMr>::kCount) < kQuads
                                    ? kSums / (Sums::kRegisters * Rows<kMr>::kCount)
                                    : kQuads;

/// What a product of rows and weights has read so far: addresses that only grow, so that what is
/// added to them is part of an instruction.
template <size_t kMr>
struct Cursor {
  const uint8_t* lines;
  const int8_t* x;
  const int32_t* bias;

  /// \param first a column.
  Cursor(const uint8_t* values, size_t bits, const Rows<kMr>& rows, size_t first)
      : lines(values + first * kBlockRows * bits / 8),
        x(rows.x + first * kMr),
        bias(rows.bias + first / kColumnStep * kMr) {}

  [[gnu::always_inline]] void advance(size_t columns, size_t bits) {
    lines += columns * kBlockRows * bits / 8;
    x += columns * kMr;
    bias += columns / kColumnStep * kMr;
  }
};

/// Looks nibbles up in drops_by_nibble().
template <size_t kBits, size_t kHalf, size_t kFirst>
[[gnu::always_inline]] inline v128_t drops_of(v128_t nibbles) {
  static constexpr NibbleTable kTable = drops_by_nibble(kBits, kHalf, kFirst);
  return wasm_i8x16_swizzle(wasm_v128_load(kTable.bytes), nibbles);
}

/// Of 2 or 3 bits: a nibble has the low bits of two codes.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline v128_t drops(const uint8_t* four, const Constants& constants) {
  const v128_t bytes = wasm_v128_load(four + kQuad / 4 * kLineBytes);
  const v128_t nibbles =
      wasm_v128_and(kQuad % 4 < 2 ? bytes : wasm_u16x8_shr(bytes, 4), constants.nibbles);
  const v128_t drops = drops_of<kBits, kQuad % 2, 0>(nibbles);
  if constexpr (kBits == 2) return drops;
  const v128_t upper = wasm_i16x8_shl(wasm_v128_load(four + 2 * kLineBytes), 7 - kQuad);
  const v128_t is_upper = wasm_i8x16_lt(upper, wasm_i8x16_const_splat(0));
  return wasm_v128_bitselect(drops_of<kBits, kQuad % 2, kBits == 3 ? 4 : 0>(nibbles), drops,
                             is_upper);
}

/// The codes, as drop_of() each, of 4 weight rows by columns 4 * kQuad .. + 3 of kColumnStep.
/// \param four where these rows are in the step's first line.
template <size_t kBits, size_t kQuad>
[[gnu::always_inline]] inline v128_t codes(const uint8_t* four, const Constants& constants) {
  if constexpr (kBits < 4) return drops<kBits, kQuad>(four, constants);
  const v128_t bytes = wasm_v128_load(four + kQuad / 2 * kLineBytes);
  const v128_t code =
      wasm_v128_and(kQuad % 2 == 0 ? bytes : wasm_u16x8_shr(bytes, 4), constants.nibbles);
  if constexpr (kBits <= 4) return code;
  constexpr size_t kAt = kQuad * (kBits > 4 ? kBits - 4 : 0);
  v128_t upper = wasm_v128_load(four + (4 + kAt / 8) * kLineBytes);
  if constexpr (kAt % 8 < 4) upper = wasm_i16x8_shl(upper, 4 - kAt % 8);
  if constexpr (kAt % 8 > 4) upper = wasm_u16x8_shr(upper, kAt % 8 - 4);
  const v128_t mask = kBits == 5 ? constants.fifth_bits : constants.upper_bits;
  return wasm_v128_or(code, wasm_v128_and(upper, mask));
}

/// The integer dot products of a group, negative because a code is the largest value less the
/// value. Moves `at` on.
/// \param kSteps of kColumnStep; 0: group_size tells.
template <size_t kBits, size_t kSteps, size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_codes(Cursor<kMr>& at, size_t group_size,
                                             const Constants& constants,
                                             v128_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  CodeSums sums[kCount][kRows];
  v128_t bias[kRows];
  unrolled<kRows>([&](auto r) { bias[r] = wasm_i32x4_const_splat(0); });
  size_t steps = kSteps > 0 ? kSteps : group_size / kColumnStep;
  do {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const int32_t of_step = offset_bias<largest_value(kBits)>(at.bias[r]);
      bias[r] = wasm_i32x4_add(bias[r], wasm_i32x4_splat(of_step));
    });
    unrolled<kColumnStep / 4>([&](auto i) [[gnu::always_inline]] {
      CodeInput x[kRows];
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        x[r] = CodeInput::load(at.x + (4 * i * kMr + 4 * r));
      });
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const v128_t weights = codes<kBits, i>(at.lines + q * kQuadBytes, constants);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          sums[q][r].add(weights, x[r]);
          if constexpr ((i + 1) % CodeSums::kMostFours<kBits> == 0) sums[q][r].collect(constants);
        });
      });
    });
    at.advance(kColumnStep, kBits);
  } while (--steps > 0);
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      acc[q][r] = wasm_i32x4_add(sums[q][r].rows(), bias[r]);
    });
  });
}

/// The integer dot products of so many int8 columns. Moves `at` on.
template <size_t kMr, size_t kCount>
[[gnu::always_inline]] inline void dot_bytes(Cursor<kMr>& at, size_t columns,
                                             v128_t (&acc)[kCount][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  ByteSums sums[kCount][kRows];
  const int8_t* four = at.x;
  for (const uint8_t *line = at.lines, *end = line + columns * kBlockRows; line != end;
       line += kLineBytes, four += 4 * kMr) {
    ByteInput x[kRows];
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] { x[r] = ByteInput::load(four + 4 * r); });
    unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
      const v128_t weights = wasm_v128_load(line + q * kQuadBytes);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] { sums[q][r].add(weights, x[r]); });
    });
  }
  at.advance(columns, 8);
  unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] { acc[q][r] = sums[q][r].rows(); });
  });
}

template <size_t kBits>
struct TwoLevel {
  using Totals = I32x16;
  using Sums = CodeSums;

  template <size_t kSteps, size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, const Constants& constants,
                  Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t group_size = args.weight.group_size;
    const uint8_t* scales =
        packed + layout.scales + quad * kQuadBytes + columns.first / group_size / 8 * kLineBytes;
    Cursor<kMr> at(packed + layout.values + quad * kQuadBytes, kBits, rows, columns.first);
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
      dot_codes<kBits, kSteps>(at, group_size, constants, acc);
      unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
        const v128_t multiple = wasm_v128_and(multiples[q], constants.multiples);
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

  template <size_t kSteps, size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, const Constants&,
                  Totals (&totals)[Rows<kMr>::kCount]) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    Cursor<kMr> at(packed + layout.values + quad * kQuadBytes, 8, rows, columns.first);
    v128_t total[kCount][kRows];
    dot_bytes<kMr, kCount>(at, columns.last - columns.first, total);
    unrolled<kCount>(
        [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
  }
};

/// A format whose groups have float16 scales; `dot(acc)` gives the integers of the next group, the
/// negative ones if kNegative.
template <bool kNegative, size_t kMr, size_t kCount, typename Dot>
[[gnu::always_inline]] inline void add_groups(const LinearArgs& args, const BlockLayout& layout,
                                              const uint8_t* packed, const Rows<kMr>& rows,
                                              size_t quad, const Constants& constants, Dot dot,
                                              F32x16 (&totals)[Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales) + quad * 4;
  const float* of_inputs = rows.group_scales;
  v128_t total[kCount][kRows];
  unrolled<kCount>(
      [&](auto q) { unrolled<kRows>([&](auto r) { total[q][r] = wasm_f32x4_const_splat(0); }); });
  for (size_t groups = args.weight.columns / args.weight.group_size; groups > 0; --groups) {
    v128_t acc[kCount][kRows];
    dot(acc);
    unrolled<kCount>([&](auto q) [[gnu::always_inline]] {
      const v128_t half = widen_half(scales + 4 * q, constants.halves);
      const v128_t scale = kNegative ? wasm_f32x4_neg(half) : half;
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const v128_t of_input = wasm_v128_load32_splat(of_inputs + r);
        total[q][r] = fused_four(wasm_f32x4_convert_i32x4(acc[q][r]),
                                 wasm_f32x4_mul(scale, of_input), total[q][r]);
      });
    });
    scales += kBlockRows;
    of_inputs += kMr;
  }
  unrolled<kCount>(
      [&](auto q) { unrolled<kRows>([&](auto r) { totals[r].part[quad + q] = total[q][r]; }); });
}

struct Int4Groups {
  using Totals = F32x16;
  using Sums = CodeSums;

  template <size_t kSteps, size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, const Constants& constants,
                  Totals (&totals)[Rows<kMr>::kCount]) {
    Cursor<kMr> at(packed + layout.values + quad * kQuadBytes, 4, rows, 0);
    const auto dot = [&](v128_t(&acc)[kCount][Rows<kMr>::kCount]) [[gnu::always_inline]] {
      dot_codes<4, kSteps>(at, args.weight.group_size, constants, acc);
    };
    add_groups<true, kMr, kCount>(args, layout, packed, rows, quad, constants, dot, totals);
  }
};

struct Int8Groups {
  using Totals = F32x16;
  using Sums = ByteSums;

  template <size_t kSteps, size_t kMr, size_t kCount>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const Rows<kMr>& rows, size_t quad, const Constants& constants,
                  Totals (&totals)[Rows<kMr>::kCount]) {
    Cursor<kMr> at(packed + layout.values + quad * kQuadBytes, 8, rows, 0);
    const auto dot = [&](v128_t(&acc)[kCount][Rows<kMr>::kCount]) [[gnu::always_inline]] {
      dot_bytes<kMr, kCount>(at, args.weight.group_size, acc);
    };
    add_groups<false, kMr, kCount>(args, layout, packed, rows, quad, constants, dot, totals);
  }
};

/// Every tile of activations times a block of weights, which stays in the caches.
template <typename Format, size_t kSteps, size_t kMr>
void multiply_blocks(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  constexpr size_t kRows = Rows<kMr>::kCount;
  constexpr size_t kCount = kQuadsAtOnce<typename Format::Sums, kMr>;
  const Constants constants;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    for (size_t m = 0; m < args.x.rows; m += kRows) {
      const Rows<kMr> rows(args.x, m / kMr * kMr, m % kMr);
      typename Format::Totals totals[kRows];
      for (size_t quad = 0; quad < kQuads; quad += kCount)
        Format::template run<kSteps, kMr, kCount>(args, layout, packed, rows, quad, constants,
                                                  totals);
      for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
        store_totals(args, m + r, block, totals[r], packed);
    }
  }
}

/// Groups of 4 bits that are one step have no loop of their own.
template <typename Format, size_t kMr>
void multiply(const LinearArgs& args) {
  if constexpr (std::is_same_v<Format, Int4Groups> || std::is_same_v<Format, TwoLevel<4>>) {
    if (args.weight.group_size == kColumnStep) return multiply_blocks<Format, 1, kMr>(args);
  }
  multiply_blocks<Format, 0, kMr>(args);
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
void matvec_int4(const LinearArgs& args) { matvec<Int4Groups>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }
void matvec_int8_groups(const LinearArgs& args) { matvec<Int8Groups>(args); }

void matmul_int2_two_level(const LinearArgs& args) { multiply<TwoLevel<2>, kTile.mr>(args); }
void matmul_int3_two_level(const LinearArgs& args) { multiply<TwoLevel<3>, kTile.mr>(args); }
void matmul_int4_two_level(const LinearArgs& args) { multiply<TwoLevel<4>, kTile.mr>(args); }
void matmul_int5_two_level(const LinearArgs& args) { multiply<TwoLevel<5>, kTile.mr>(args); }
void matmul_int6_two_level(const LinearArgs& args) { multiply<TwoLevel<6>, kTile.mr>(args); }
void matmul_int4(const LinearArgs& args) { multiply<Int4Groups, kTile.mr>(args); }
void matmul_int8(const LinearArgs& args) { multiply<Int8, kTile.mr>(args); }
void matmul_int8_groups(const LinearArgs& args) { multiply<Int8Groups, kTile.mr>(args); }

}  // namespace thimble::kernels::THIMBLE_VARIANT
