#include <immintrin.h>

#include "kernels/avx2/rows.h"
#include "kernels/avx2/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx2 {
namespace {

constexpr size_t kHalves = 2, kHalfLine = kLineBytes / kHalves;  // 8 weight rows each

/// How often a tile's rows pass over a block.
template <size_t kMr>
constexpr size_t kPasses = kMr / Rows<kMr>::kCount;

/// The sum of 16-bit numbers, computed immediately: the compiler would first collect all products
/// of a group on the stack.
[[gnu::always_inline]] inline __m256i add_words(__m256i acc, __m256i x) {
  asm("vpaddw %1, %0, %0" : "+x"(acc) : "x"(x));
  return acc;
}

/// The codes of 8 weight rows by columns 4 * kQuad .. + 3 of kColumnStep, as they are packed,
template <size_t kOfBits>
struct Packed {
  static constexpr size_t kBits = kOfBits, kStepBytes = step_bytes(kBits);
  static constexpr bool kIsPacked = true;

  /// \param half where a half of the step's first line is.
  template <size_t kQuad>
  [[gnu::always_inline]] static __m256i codes(const uint8_t* half) {
    const __m256i bytes = _mm256_load_si256(as_vector(half + kQuad / 2 * kLineBytes));
    const __m256i nibbles = _mm256_and_si256(kQuad % 2 == 0 ? bytes : _mm256_srli_epi16(bytes, 4),
                                             _mm256_set1_epi8(15));
    if constexpr (kBits == 4) {
      return nibbles;
    } else {
      constexpr size_t kAt = kQuad * (kBits - 4), kMask = (1 << kBits) - 16;
      __m256i upper = _mm256_load_si256(as_vector(half + (4 + kAt / 8) * kLineBytes));
      if constexpr (kAt % 8 < 4) upper = _mm256_slli_epi16(upper, 4 - kAt % 8);
      if constexpr (kAt % 8 > 4) upper = _mm256_srli_epi16(upper, kAt % 8 - 4);
      return _mm256_or_si256(nibbles, _mm256_and_si256(upper, _mm256_set1_epi8(kMask)));
    }
  }
};

/// or as bytes [columns / 4][16][4].
template <size_t kOfBits>
struct Unpacked {
  static constexpr size_t kBits = kOfBits, kStepBytes = kColumnStep * kBlockRows;
  static constexpr bool kIsPacked = false;

  template <size_t kQuad>
  [[gnu::always_inline]] static __m256i codes(const uint8_t* half) {
    return _mm256_load_si256(as_vector(half + kQuad * kLineBytes));
  }
};

template <size_t kBits>
void unpack(const uint8_t* lines, size_t columns, uint8_t* out) {
  for (size_t k = 0; k < columns; k += kColumnStep, lines += step_bytes(kBits))
    unrolled<kColumnStep / 4>([&](auto quad) [[gnu::always_inline]] {
      for (size_t half = 0; half < kLineBytes; half += kHalfLine, out += kHalfLine)
        _mm256_store_si256(as_vector(out), Packed<kBits>::template codes<quad>(lines + half));
    });
}

/// Adds the products of kQuads times four columns, from the kFirst-th four of a step on, of a
/// block's weight rows with a tile's to 16-bit sums: two a weight row, one over the first two of
/// each four columns, one over the others.
template <typename Codes, size_t kFirst, size_t kQuads, size_t kMr>
[[gnu::always_inline]] inline void add_products(const uint8_t* lines, const uint8_t* ahead,
                                                const Rows<kMr>& rows, size_t k,
                                                __m256i (&words)[kHalves][Rows<kMr>::kCount]) {
  unrolled<kQuads>([&](auto i) [[gnu::always_inline]] {
    constexpr size_t kQuad = kFirst + i;
    if constexpr (Codes::kIsPacked && kQuad < Codes::kBits) {
      const uint8_t* line = lines + kQuad * kLineBytes;
      prefetch<kPasses<kMr>>(line, ahead, kQuad);
      _mm_prefetch(reinterpret_cast<const char*>(line + kNearBytes), _MM_HINT_T0);
    }
    __m256i codes[kHalves];
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
      codes[h] = Codes::template codes<kQuad>(lines + h * kHalfLine);
    });
    unrolled<Rows<kMr>::kCount>([&](auto r) [[gnu::always_inline]] {
      const __m256i four = _mm256_set1_epi32(rows.four(r, k + kQuad * 4));
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        words[h][r] = add_words(words[h][r], _mm256_maddubs_epi16(codes[h], four));
      });
    });
  });
}

/// Dot products, negative, of a block's weight rows with a tile's over kColumnStep columns.
///
/// Of 4 bits they are two 16-bit sums a weight row. The first starts from the bias, -7 times the q
/// of both. It may wrap in between, but the result fits int16: |sum of value * q| + |7 * sum of the
/// other's q| <= 16384 + 14336. The second is at most 16 * 15 * 128.
///
/// Of 5 and 6 bits they are 32-bit sums of 16-bit sums over 16 or 8 columns, which are at most
/// 8 * 31 * 128 or 4 * 63 * 128.
template <typename Codes, size_t kMr>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const uint8_t* ahead,
                                            const Rows<kMr>& rows, size_t k,
                                            __m256i (&acc)[kHalves][Rows<kMr>::kCount]) {
  constexpr size_t kRows = Rows<kMr>::kCount, kBits = Codes::kBits;
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    const int32_t bias = offset_bias<largest_value(kBits)>(rows.bias[k / kColumnStep * kMr + r]);
    unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
      acc[h][r] = _mm256_set1_epi32(kBits == 4 ? static_cast<uint16_t>(bias) : bias);
    });
  });
  if constexpr (kBits == 4) {
    add_products<Codes, 0, 8>(lines, ahead, rows, k, acc);
  } else {
    constexpr size_t kQuads = kBits == 5 ? 4 : 2;
    unrolled<8 / kQuads>([&](auto part) [[gnu::always_inline]] {
      __m256i words[kHalves][kRows];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r)
                            [[gnu::always_inline]] { words[h][r] = _mm256_setzero_si256(); });
      });
      add_products<Codes, part * kQuads, kQuads>(lines, ahead, rows, k, words);
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          const __m256i sum = _mm256_madd_epi16(words[h][r], _mm256_set1_epi16(1));
          acc[h][r] = _mm256_add_epi32(acc[h][r], sum);
        });
      });
    });
  }
}

/// Sums of dot_step times multiples, each in 32 bits.
template <size_t kBits>
[[gnu::always_inline]] inline __m256i times(__m256i sums, __m256i multiples) {
  if constexpr (kBits > 4) return _mm256_mullo_epi32(sums, multiples);
  return _mm256_madd_epi16(sums, _mm256_or_si256(multiples, _mm256_slli_epi32(multiples, 16)));
}

inline I32x16 joined(__m256i low, __m256i high) { return {low, high}; }
inline F32x16 joined(__m256 low, __m256 high) { return {low, high}; }

template <typename OfCodes>
struct TwoLevel {
  using Codes = OfCodes;
  template <size_t kMr>
  using Totals = __m256i[kHalves][Rows<kMr>::kCount];

  template <size_t kMr>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const uint8_t* values, const uint8_t* ahead, const Rows<kMr>& rows,
                  Totals<kMr>& totals) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t group_size = args.weight.group_size;
    const uint8_t* scales = packed + layout.scales + columns.first / group_size / 8 * kLineBytes;
    Totals<kMr> total;
    __m256i multiples[kHalves];
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
      __m256i multiple[kHalves];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        multiple[h] = _mm256_and_si256(multiples[h], _mm256_set1_epi32(15));
        multiples[h] = _mm256_srli_epi32(multiples[h], 4);
      });
      for (const size_t end = k + group_size; k < end; k += kColumnStep) {
        __m256i acc[kHalves][kRows];
        dot_step<Codes>(values + k / kColumnStep * Codes::kStepBytes, ahead, rows, k, acc);
        ahead += Codes::kStepBytes / kPasses<kMr>;
        unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            total[h][r] =
                _mm256_sub_epi32(total[h][r], times<Codes::kBits>(acc[h][r], multiple[h]));
          });
        });
      }
    }
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { totals[h][r] = total[h][r]; }); });
  }
};

struct Plain {
  using Codes = Packed<4>;
  template <size_t kMr>
  using Totals = __m256[kHalves][Rows<kMr>::kCount];

  template <size_t kMr>
  static void run(const LinearArgs& args, const BlockLayout& layout, const uint8_t* packed,
                  const uint8_t* values, const uint8_t* ahead, const Rows<kMr>& rows,
                  Totals<kMr>& totals) {
    constexpr size_t kRows = Rows<kMr>::kCount;
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
    Totals<kMr> total;
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { total[h][r] = _mm256_setzero_ps(); }); });
    const float* input_scales = rows.group_scales;
    for (size_t k = 0; k < columns; scales += kBlockRows, input_scales += kMr) {
      __m256i sum[kHalves][kRows];
      unrolled<kHalves>([&](auto h) [[gnu::always_inline]] {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] { sum[h][r] = _mm256_setzero_si256(); });
      });
      for (const size_t end = k + group_size; k < end; k += kColumnStep) {
        __m256i acc[kHalves][kRows];
        dot_step<Codes>(values + k / kColumnStep * Codes::kStepBytes, ahead, rows, k, acc);
        ahead += Codes::kStepBytes / kPasses<kMr>;
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
          const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(input_scales[r]));
          total[h][r] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(sum[h][r]), both, total[h][r]);
        });
      });
    }
    unrolled<kHalves>(
        [&](auto h) { unrolled<kRows>([&](auto r) { totals[h][r] = total[h][r]; }); });
  }
};

/// The same for one row and for tiles: unpacking nibbles costs little compared with the products of
/// four rows. Other codes of tiles are unpacked before.
template <typename Format>
void linear(const LinearArgs& args) {
  using Codes = typename Format::Codes;
  const BlockLayout layout = args.weight.layout();
  with_tile(args.x.tile.mr, [&](auto tile) {
    constexpr size_t kMr = decltype(tile)::value, kRows = Rows<kMr>::kCount;
    const ColumnRange columns = columns_of(args);
    const size_t first_byte = columns.first / kColumnStep * Codes::kStepBytes;
    const size_t bytes = (columns.last - columns.first) / kColumnStep * Codes::kStepBytes;
    for (size_t block = args.first_block; block < args.last_block; ++block) {
      const uint8_t* packed = args.weight.data + block * layout.bytes;
      const uint8_t* values = packed + layout.values;
      if constexpr (!Codes::kIsPacked) {
        unpack<Codes::kBits>(values, args.weight.columns, args.scratch);
        values = args.scratch;
      }
      size_t pass = 0;
      for (size_t m = 0; m < args.x.rows; m += kRows) {
        const Rows<kMr> rows(args.x, m);
        typename Format::template Totals<kMr> totals;
        const uint8_t* ahead =
            prefetch_from<kPasses<kMr>>(values + first_byte, layout.bytes, bytes, pass);
        Format::template run<kMr>(args, layout, packed, values, ahead, rows, totals);
        pass = (pass + 1) % kPasses<kMr>;
        for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
          store_totals(args, m + r, block, joined(totals[0][r], totals[1][r]), packed);
      }
    }
  });
}

}  // namespace

void matvec_int4_two_level(const LinearArgs& args) { linear<TwoLevel<Packed<4>>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { linear<TwoLevel<Packed<5>>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { linear<TwoLevel<Packed<6>>>(args); }
void matvec_int4(const LinearArgs& args) { linear<Plain>(args); }
void matmul_int4_two_level(const LinearArgs& args) { linear<TwoLevel<Packed<4>>>(args); }
void matmul_int5_two_level(const LinearArgs& args) { linear<TwoLevel<Unpacked<5>>>(args); }
void matmul_int6_two_level(const LinearArgs& args) { linear<TwoLevel<Unpacked<6>>>(args); }
void matmul_int4(const LinearArgs& args) { linear<Plain>(args); }

}  // namespace thimble::kernels::avx2
