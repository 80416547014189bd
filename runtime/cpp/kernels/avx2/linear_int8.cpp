#include <immintrin.h>

#include "kernels/avx2/rows.h"
#include "kernels/avx2/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx2 {
namespace {

/// Four int32 pairs of sums of 4 weight rows each, as 16 sums.
I32x16 added_pairs(const __m256i (&pairs)[4]) {
  const __m256i low = _mm256_hadd_epi32(pairs[0], pairs[1]);
  const __m256i high = _mm256_hadd_epi32(pairs[2], pairs[3]);
  return {_mm256_permute4x64_epi64(low, 0xD8), _mm256_permute4x64_epi64(high, 0xD8)};
}

/// How many rows of a tile share a pass over a block, and how many passes there are.
template <size_t kMr>
constexpr size_t kAtOnce = kMr < 2 ? 1 : 2;
template <size_t kMr>
constexpr size_t kPasses = kMr / kAtOnce<kMr>;

/// A block times kCount rows of a tile from its row kFirst on, in 16 bits: products of int8
/// overflow vpmaddubsw.
template <size_t kMr, size_t kFirst, size_t kCount>
void multiply(const LinearArgs& args, const uint8_t* lines, const uint8_t* ahead,
              const Rows<kMr>& rows, I32x16* totals) {
  __m256i acc[kCount][4];
  unrolled<kCount>(
      [&](auto r) { unrolled<4>([&](auto i) { acc[r][i] = _mm256_setzero_si256(); }); });
  const ColumnRange columns = columns_of(args);
  for (size_t k = columns.first; k < columns.last; k += 4, lines += kLineBytes) {
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
  unrolled<kCount>([&](auto r) { totals[kFirst + r] = added_pairs(acc[r]); });
}

void linear(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  with_tile(args.x.tile.mr, [&](auto tile) {
    constexpr size_t kMr = decltype(tile)::value, kRows = Rows<kMr>::kCount;
    constexpr size_t kCount = kAtOnce<kMr>;
    const ColumnRange columns = columns_of(args);
    const size_t bytes = (columns.last - columns.first) * kBlockRows;
    for (size_t block = args.first_block; block < args.last_block; ++block) {
      const uint8_t* packed = args.weight.data + block * layout.bytes;
      const uint8_t* lines = packed + layout.values + columns.first * kBlockRows;
      for (size_t m = 0; m < args.x.rows; m += kRows) {
        const Rows<kMr> rows(args.x, m);
        I32x16 totals[kRows];
        unrolled<kRows / kCount>([&](auto i) {
          const size_t pass = (m / kCount + i) % kPasses<kMr>;
          const uint8_t* ahead = prefetch_from<kPasses<kMr>>(lines, layout.bytes, bytes, pass);
          multiply<kMr, i * kCount, kCount>(args, lines, ahead, rows, totals);
        });
        for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
          store_totals(args, m + r, block, totals[r], packed);
      }
    }
  });
}

}  // namespace

void matvec_int8(const LinearArgs& args) { linear(args); }
void matmul_int8(const LinearArgs& args) { linear(args); }

}  // namespace thimble::kernels::avx2
