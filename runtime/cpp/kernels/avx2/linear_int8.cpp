#include <immintrin.h>

#include "kernels/avx2/rows.h"
#include "kernels/avx2/variant.h"
#include "kernels/epilogue.h"
#include "kernels/functions.h"

namespace thimble::kernels::avx2 {
namespace {

constexpr size_t kPrefetchBytes = 4096;

/// Four int32 pairs of sums of 4 weight rows each, as 16 sums.
I32x16 added_pairs(const __m256i (&pairs)[4]) {
  const __m256i low = _mm256_hadd_epi32(pairs[0], pairs[1]);
  const __m256i high = _mm256_hadd_epi32(pairs[2], pairs[3]);
  return {_mm256_permute4x64_epi64(low, 0xD8), _mm256_permute4x64_epi64(high, 0xD8)};
}

/// A block times kRows rows, in 16 bits: products of int8 overflow vpmaddubsw.
template <size_t kRows>
void multiply(const uint8_t* lines, size_t columns, const Rows<kRows>& rows, I32x16* totals) {
  __m256i acc[kRows][4];
  unrolled<kRows>(
      [&](auto r) { unrolled<4>([&](auto i) { acc[r][i] = _mm256_setzero_si256(); }); });
  for (size_t k = 0; k < columns; k += 4, lines += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(lines + kPrefetchBytes), _MM_HINT_T0);
    __m256i x[kRows];
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const __m128i four = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(rows.four(r, k)));
      x[r] = _mm256_broadcastq_epi64(four);
    });
    unrolled<4>([&](auto i) [[gnu::always_inline]] {
      const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(lines) + i);
      const __m256i weights = _mm256_cvtepi8_epi16(bytes);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        acc[r][i] = _mm256_add_epi32(acc[r][i], _mm256_madd_epi16(weights, x[r]));
      });
    });
  }
  unrolled<kRows>([&](auto r) { totals[r] = added_pairs(acc[r]); });
}

void linear(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const uint8_t* lines = packed + layout.values;
    for (size_t first = 0; first < args.x.rows; first += 2) {
      const size_t count = args.x.rows - first < 2 ? 1 : 2;
      I32x16 totals[2];
      if (count == 1) {
        multiply<1>(lines, args.weight.columns, Rows<1>(args.x, first, 1), totals);
      } else {
        multiply<2>(lines, args.weight.columns, Rows<2>(args.x, first, 2), totals);
      }
      for (size_t r = 0; r < count; ++r)
        store_outputs(args, first + r, block, scaled(totals[r], args.x.params[first + r], packed));
    }
  }
}

}  // namespace

void matvec_int8(const LinearArgs& args) { linear(args); }
void matmul_int8(const LinearArgs& args) { linear(args); }

}  // namespace thimble::kernels::avx2
