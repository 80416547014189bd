#include <immintrin.h>

#include "kernels/avx2/rows.h"
#include "kernels/avx2/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx2 {
namespace {

/// Four int32 pairs of sums of 4 weight rows each, as 16 sums.
[[gnu::always_inline]] inline I32x16 added_pairs(const __m256i (&pairs)[4]) {
  const __m256i low = _mm256_hadd_epi32(pairs[0], pairs[1]);
  const __m256i high = _mm256_hadd_epi32(pairs[2], pairs[3]);
  return {_mm256_permute4x64_epi64(low, 0xD8), _mm256_permute4x64_epi64(high, 0xD8)};
}

/// How many rows of a tile share a pass over a block, and how many passes there are.
template <size_t kMr>
constexpr size_t kAtOnce = kMr < 2 ? 1 : 2;
template <size_t kMr>
constexpr size_t kPasses = kMr / kAtOnce<kMr>;

/// Pairs of sums of a block with kCount rows.
template <size_t kCount>
using Pairs = __m256i[kCount][4];

/// A block's columns from `first` to before `last` times kCount rows of a tile from its row kFirst
/// on, in 16 bits: products of int8 overflow vpmaddubsw. Moves `lines` and `ahead` on.
template <size_t kMr, size_t kFirst, size_t kCount>
[[gnu::always_inline]] inline void dot(const uint8_t*& lines, const uint8_t*& ahead,
                                       const Rows<kMr>& rows, size_t first, size_t last,
                                       Pairs<kCount>& acc) {
  unrolled<kCount>(
      [&](auto r) { unrolled<4>([&](auto i) { acc[r][i] = _mm256_setzero_si256(); }); });
  for (size_t k = first; k < last; k += 4, lines += kLineBytes) {
    prefetch<kPasses<kMr>>(lines, ahead, 0);
    ahead += kLineBytes / kPasses<kMr>;
    __m256i x[kCount];
    unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
      const __m128i four = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(rows.four(kFirst + r, k)));
      x[r] = _mm256_broadcastq_epi64(four);
    });
    unrolled<4>([&](auto i) [[gnu::always_inline]] {
      const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(lines) + i);
      const __m256i weights = _mm256_cvtepi8_epi16(bytes);
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        acc[r][i] = _mm256_add_epi32(acc[r][i], _mm256_madd_epi16(weights, x[r]));
      });
    });
  }
}

struct Plain {
  using Total = I32x16;

  template <size_t kMr, size_t kFirst, size_t kCount>
  static void run(const LinearArgs& args, const uint16_t*, const uint8_t* lines,
                  const uint8_t* ahead, const Rows<kMr>& rows, Total* totals) {
    const ColumnRange columns = columns_of(args);
    Pairs<kCount> acc;
    dot<kMr, kFirst, kCount>(lines, ahead, rows, columns.first, columns.last, acc);
    unrolled<kCount>([&](auto r) { totals[kFirst + r] = added_pairs(acc[r]); });
  }
};

struct Groups {
  using Total = F32x16;

  template <size_t kMr, size_t kFirst, size_t kCount>
  static void run(const LinearArgs& args, const uint16_t* scales, const uint8_t* lines,
                  const uint8_t* ahead, const Rows<kMr>& rows, Total* totals) {
    const size_t group_size = args.weight.group_size;
    F32x16 total[kCount];
    unrolled<kCount>([&](auto r) { total[r] = broadcast(0.0f); });
    for (size_t k = 0; k < args.weight.columns; k += group_size, scales += kBlockRows) {
      Pairs<kCount> acc;
      dot<kMr, kFirst, kCount>(lines, ahead, rows, k, k + group_size, acc);
      const F32x16 scale = load_half(scales);
      const float* input_scales = rows.group_scales + k / group_size * kMr + kFirst;
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        const F32x16 both = mul(scale, broadcast(input_scales[r]));
        total[r] = fused(to_float(added_pairs(acc[r])), both, total[r]);
      });
    }
    unrolled<kCount>([&](auto r) { totals[kFirst + r] = total[r]; });
  }
};

template <typename Format>
void linear(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  with_tile(args.x.tile.mr, [&](auto tile) {
    constexpr size_t kMr = decltype(tile)::value, kRows = Rows<kMr>::kCount;
    constexpr size_t kCount = kAtOnce<kMr>;
    const ColumnRange columns = columns_of(args);
    const size_t bytes = (columns.last - columns.first) * kBlockRows;
    for (size_t block = args.first_block; block < args.last_block; ++block) {
      const uint8_t* packed = args.weight.data + block * layout.bytes;
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
      const uint8_t* lines = packed + layout.values + columns.first * kBlockRows;
      for (size_t m = 0; m < args.x.rows; m += kRows) {
        const Rows<kMr> rows(args.x, m);
        typename Format::Total totals[kRows];
        unrolled<kRows / kCount>([&](auto i) {
          const size_t pass = (m / kCount + i) % kPasses<kMr>;
          const uint8_t* ahead = prefetch_from<kPasses<kMr>>(lines, layout.bytes, bytes, pass);
          Format::template run<kMr, i * kCount, kCount>(args, scales, lines, ahead, rows, totals);
        });
        for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
          store_totals(args, m + r, block, totals[r], packed);
      }
    }
  });
}

}  // namespace

void matvec_int8(const LinearArgs& args) { linear<Plain>(args); }
void matvec_int8_groups(const LinearArgs& args) { linear<Groups>(args); }
void matmul_int8(const LinearArgs& args) { linear<Plain>(args); }
void matmul_int8_groups(const LinearArgs& args) { linear<Groups>(args); }

}  // namespace thimble::kernels::avx2
