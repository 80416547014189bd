#include <immintrin.h>

#include "kernels/avx2/rows.h"
#include "kernels/avx2/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx2 {
namespace {

constexpr size_t kHalfLine = kLineBytes / 2;  // 8 weight rows

/// Both halves of a block at once for one or two rows, so that memory is read in order; else one
/// after the other, because there are too few registers.
template <size_t kMr>
constexpr size_t kHalvesAtOnce = kMr <= 2 ? 2 : 1;

/// How often a tile's rows pass over a block.
template <size_t kMr>
constexpr size_t kPasses = 2 / kHalvesAtOnce<kMr> * (kMr / Rows<kMr>::kCount);

/// The sum of 16-bit numbers, computed immediately: the compiler would first collect all products
/// of a group on the stack.
[[gnu::always_inline]] inline __m256i add_words(__m256i acc, __m256i x) {
  asm("vpaddw %1, %0, %0" : "+x"(acc) : "x"(x));
  return acc;
}

/// 16-bit dot products, negative, of kHalves * 8 weight rows with kRows rows over kColumnStep
/// columns: two sums a weight row, one over the first two of each four columns, one over the
/// others. The first starts from the bias, -7 times the q of both. It may wrap in between, but the
/// result fits int16: |sum of value * q| + |7 * sum of the other's q| <= 16384 + 14336. The second
/// is at most 16 * 15 * 128.
template <size_t kMr, size_t kHalves>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const uint8_t* ahead,
                                            const Rows<kMr>& rows, size_t k,
                                            __m256i (&acc)[kHalves][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount;
  const __m256i mask = _mm256_set1_epi8(0x0F);
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    const uint16_t bias = static_cast<uint16_t>(rows.bias[k / kColumnStep * kMr + r]);
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] { acc[h][r] = _mm256_set1_epi32(bias); });
  });
  unrolled<kColumnStep / 8>([&](auto step) [[gnu::always_inline]] {
    const uint8_t* line = lines + step * kLineBytes;
    prefetch<kPasses<kMr>>(line, ahead, step);
    _mm_prefetch(reinterpret_cast<const char*>(line + kNearBytes), _MM_HINT_T0);
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
      const __m256i bytes = _mm256_load_si256(as_vector(line + h * kHalfLine));
      const __m256i low = _mm256_and_si256(bytes, mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const __m256i first = _mm256_set1_epi32(rows.four(r, k + step * 8));
        const __m256i second = _mm256_set1_epi32(rows.four(r, k + step * 8 + 4));
        acc[h][r] = add_words(acc[h][r], _mm256_maddubs_epi16(low, first));
        acc[h][r] = add_words(acc[h][r], _mm256_maddubs_epi16(high, second));
      });
    });
  });
}

inline I32x16 joined(__m256i low, __m256i high) { return {low, high}; }
inline F32x16 joined(__m256 low, __m256 high) { return {low, high}; }

struct TwoLevel {
  template <size_t kMr>
  using Totals = __m256i[2][Rows<kMr>::kCount];  // of the two halves of a block

  template <size_t kMr, size_t kHalves>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const uint8_t* ahead, const Rows<kMr>& rows, size_t first_half,
                  Totals<kMr>& totals) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t group_size = args.weight.group_size;
    const uint8_t* scales = packed + layout.scales + first_half * kHalfLine +
                            columns.first / group_size / 8 * kLineBytes;
    const uint8_t* lines = packed + layout.values + first_half * kHalfLine;
    __m256i total[kHalves][kRows], multiples[kHalves];
    unrolled<kHalves>([&](auto h) {
      multiples[h] = _mm256_setzero_si256();
      unrolled<kRows>([&](auto r) { total[h][r] = _mm256_setzero_si256(); });
    });
    for (size_t k = columns.first, group = 0; k < columns.last; ++group) {
      if (group % 8 == 0) {
        unrolled<kHalves>(
            [&](auto h) { multiples[h] = _mm256_load_si256(as_vector(scales + h * kHalfLine)); });
        scales += kLineBytes;
      }
      __m256i pairs[kHalves];  // a multiple twice, for the two sums of a row
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        const __m256i single = _mm256_and_si256(multiples[h], _mm256_set1_epi32(15));
        pairs[h] = _mm256_or_si256(single, _mm256_slli_epi32(single, 16));
        multiples[h] = _mm256_srli_epi32(multiples[h], 4);
      });
      for (const size_t end = k + group_size; k < end; k += kColumnStep) {
        __m256i acc[kHalves][kRows];
        dot_step<kMr, kHalves>(lines + k * 8, ahead, rows, k, acc);
        ahead += kColumnStep * 8 / kPasses<kMr>;
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            total[h][r] = _mm256_sub_epi32(total[h][r], _mm256_madd_epi16(acc[h][r], pairs[h]));
          });
        });
      }
    }
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { totals[first_half + h][r] = total[h][r]; }); });
  }
};

struct Plain {
  template <size_t kMr>
  using Totals = __m256[2][Rows<kMr>::kCount];

  template <size_t kMr, size_t kHalves>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const uint8_t* ahead, const Rows<kMr>& rows, size_t first_half,
                  Totals<kMr>& totals) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const uint8_t* lines = packed + layout.values + first_half * kHalfLine;
    const uint16_t* scales =
        reinterpret_cast<const uint16_t*>(packed + layout.scales) + first_half * 8;
    __m256 total[kHalves][kRows];
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { total[h][r] = _mm256_setzero_ps(); }); });
    for (size_t k = 0; k < columns; scales += kBlockRows) {
      __m256i sum[kHalves][kRows];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] { sum[h][r] = _mm256_setzero_si256(); });
      });
      for (const size_t end = k + group_size; k < end; k += kColumnStep) {
        __m256i acc[kHalves][kRows];
        dot_step<kMr, kHalves>(lines + k * 8, ahead, rows, k, acc);
        ahead += kColumnStep * 8 / kPasses<kMr>;
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            const __m256i both = _mm256_madd_epi16(acc[h][r], _mm256_set1_epi16(1));
            sum[h][r] = _mm256_add_epi32(sum[h][r], both);
          });
        });
      }
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        const __m256 scale = widen_half(scales + h * 8);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[h][r] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(sum[h][r]), scale, total[h][r]);
        });
      });
    }
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { totals[first_half + h][r] = total[h][r]; }); });
  }
};

/// The same for one row and for tiles: unpacking nibbles costs little compared with the products of
/// four rows.
template <typename Format>
void linear(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  with_tile(args.x.tile.mr, [&](auto tile) {
    constexpr size_t kMr = decltype(tile)::value, kRows = Rows<kMr>::kCount;
    constexpr size_t kHalves = kHalvesAtOnce<kMr>;
    const ColumnRange columns = columns_of(args);
    const size_t bytes = (columns.last - columns.first) * 8;
    for (size_t block = args.first_block; block < args.last_block; ++block) {
      const uint8_t* packed = args.weight.data + block * layout.bytes;
      const uint8_t* lines = packed + layout.values + columns.first * 8;
      size_t pass = 0;
      for (size_t m = 0; m < args.x.rows; m += kRows) {
        const Rows<kMr> rows(args.x, m);
        typename Format::template Totals<kMr> totals;
        for (size_t half = 0; half < 2; half += kHalves, pass = (pass + 1) % kPasses<kMr>) {
          const uint8_t* ahead = prefetch_from<kPasses<kMr>>(lines, layout.bytes, bytes, pass);
          Format::template run<kMr, kHalves>(args, layout, packed, ahead, rows, half, totals);
        }
        for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
          store_totals(args, m + r, block, joined(totals[0][r], totals[1][r]), packed);
      }
    }
  });
}

}  // namespace

void matvec_int4_two_level(const LinearArgs& args) { linear<TwoLevel>(args); }
void matvec_int4(const LinearArgs& args) { linear<Plain>(args); }
void matmul_int4_two_level(const LinearArgs& args) { linear<TwoLevel>(args); }
void matmul_int4(const LinearArgs& args) { linear<Plain>(args); }

}  // namespace thimble::kernels::avx2
