#include <immintrin.h>

#include "kernels/avx512vnni/codes.h"
#include "kernels/avx512vnni/dot.h"
#include "kernels/avx512vnni/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::avx512vnni {
namespace {

/// How far ahead of the current line weights are prefetched: far ahead into the second-level cache,
/// which has many requests in flight and so reaches the full bandwidth; shortly before use into the
/// first.
constexpr size_t kFarBytes = 4096, kNearBytes = 512;

inline void prefetch(const uint8_t* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line + kFarBytes), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(line + kNearBytes), _MM_HINT_T0);
}

/// -(sum of value * q) of a block's kColumnStep columns from `lines` on with each of kRows rows.
/// `x` and `bias` point to these columns in the tile.
template <size_t kBits, size_t kRows>
[[gnu::always_inline]] inline void dot_step(const uint8_t* lines, const int8_t* x,
                                            const int32_t* bias, __m512i (&sums)[kRows]) {
  const Codes<kBits> codes(lines);
  __m512i high[kRows];
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    sums[r] = _mm512_set1_epi32(offset_bias<largest_value(kBits)>(bias[r]));
    high[r] = _mm512_setzero_si512();
  });
  unrolled<kColumnStep / 8>([&](auto line) [[gnu::always_inline]] {
    for (size_t i = line * kBits / 4; i < (line + 1) * kBits / 4; ++i)
      prefetch(lines + i * kLineBytes);
    const __m512i low_codes = codes.template low<line>();
    const __m512i high_codes = codes.template high<line>();
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      sums[r] = dot(sums[r], low_codes, x + (2 * line * kRows + r) * 4);
      high[r] = dot(high[r], high_codes, x + ((2 * line + 1) * kRows + r) * 4);
    });
  });
  unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
    if constexpr (Codes<kBits>::kHighShift > 0)
      high[r] = _mm512_srai_epi32(high[r], Codes<kBits>::kHighShift);
    sums[r] = _mm512_add_epi32(sums[r], high[r]);
  });
}

/// total + sums * multiple. Sums that fit are the low 16 bits; the high 16 are multiplied by 0.
template <size_t kBits>
[[gnu::always_inline]] inline __m512i add_times(__m512i total, __m512i sums, __m512i multiple) {
  return sums_fit_words(kBits) ? _mm512_dpwssd_epi32(total, sums, multiple)
                               : _mm512_add_epi32(total, _mm512_mullo_epi32(sums, multiple));
}

/// Scales and stores the outputs of the tile's rows.
template <size_t kRows, typename Vector>
void finish(const LinearArgs& args, size_t block, const uint8_t* packed,
            const Vector (&total)[kRows]) {
  alignas(kLineBytes) Vector totals[kRows];
  unrolled<kRows>([&](auto r) { totals[r] = total[r]; });
  for (size_t r = 0; r < args.x.rows; ++r) store_totals(args, r, block, totals[r], packed);
}

template <size_t kBits>
struct TwoLevel {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block) {
    const ColumnRange columns = columns_of(args);
    const size_t groups = (columns.last - columns.first) / args.weight.group_size;
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const uint8_t* scales =
        packed + layout.scales + columns.first / args.weight.group_size / 8 * kLineBytes;
    const uint8_t* lines = packed + layout.values + columns.first / kColumnStep * step_bytes(kBits);
    const int8_t* x = args.x.values + columns.first * kRows;
    const int32_t* bias = args.x.group_bias + columns.first / kColumnStep * kRows;
    __m512i total[kRows];
    unrolled<kRows>([&](auto r) { total[r] = _mm512_setzero_si512(); });
    __m512i multiples = _mm512_setzero_si512();
    for (size_t group = 0; group < groups; ++group) {
      if (group % 8 == 0) {
        multiples = _mm512_load_si512(scales);
        prefetch(scales);
        scales += kLineBytes;
      }
      const __m512i multiple = _mm512_and_si512(multiples, _mm512_set1_epi32(15));
      multiples = _mm512_srli_epi32(multiples, 4);
      const uint8_t* end = lines + args.weight.group_size / kColumnStep * step_bytes(kBits);
      for (; lines != end; lines += step_bytes(kBits), x += kColumnStep * kRows, bias += kRows) {
        __m512i sums[kRows];
        dot_step<kBits>(lines, x, bias, sums);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          total[r] = add_times<kBits>(total[r], sums[r], multiple);
        });
      }
    }
    unrolled<kRows>([&](auto r) { total[r] = _mm512_sub_epi32(_mm512_setzero_si512(), total[r]); });
    finish(args, block, packed, total);
  }
};

struct Int4 {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
    const uint8_t* lines = packed + layout.values;
    const int8_t* x = args.x.values;
    const int32_t* bias = args.x.group_bias;
    const float* input_scales = args.x.group_scales;
    const size_t groups = args.weight.columns / args.weight.group_size;
    __m512 total[kRows];
    unrolled<kRows>([&](auto r) { total[r] = _mm512_setzero_ps(); });
    for (size_t group = 0; group < groups; ++group, scales += kBlockRows, input_scales += kRows) {
      __m512i group_sums[kRows];
      unrolled<kRows>([&](auto r) { group_sums[r] = _mm512_setzero_si512(); });
      const uint8_t* end = lines + args.weight.group_size * 8;
      for (; lines != end; lines += kColumnStep * 8, x += kColumnStep * kRows, bias += kRows) {
        __m512i sums[kRows];
        dot_step<4>(lines, x, bias, sums);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          group_sums[r] = _mm512_add_epi32(group_sums[r], sums[r]);
        });
      }
      const __m512 scale = load_half(scales);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const __m512 both = mul(scale, broadcast(input_scales[r]));
        total[r] = _mm512_fnmadd_ps(to_float(group_sums[r]), both, total[r]);
      });
    }
    finish(args, block, packed, total);
  }
};

/// The sum of a row's q over some columns.
int32_t sum_of(const QuantizedRows& x, size_t row, ColumnRange columns) {
  if (columns.last - columns.first == x.columns) return x.params[row].sum;
  int32_t bias = 0;
  for (size_t step = columns.first / kColumnStep; step < columns.last / kColumnStep; ++step)
    bias += x.group_bias[step * x.tile.mr + row];
  return bias / -7;
}

struct Int8 {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const ColumnRange columns = columns_of(args);
    const uint8_t* lines = packed + layout.values + columns.first * kBlockRows;
    const int8_t* x = args.x.values + columns.first * kRows;
    const __m512i flip = _mm512_set1_epi8(-128);  // to value + 128, unsigned
    __m512i even[kRows], odd[kRows];
    unrolled<kRows>([&](auto r) {
      even[r] = _mm512_setzero_si512();
      odd[r] = _mm512_setzero_si512();
    });
    for (size_t k = columns.first; k < columns.last;
         k += 8, lines += 2 * kLineBytes, x += 8 * kRows) {
      prefetch(lines);
      prefetch(lines + kLineBytes);
      const __m512i first = _mm512_xor_si512(_mm512_load_si512(lines), flip);
      const __m512i second = _mm512_xor_si512(_mm512_load_si512(lines + kLineBytes), flip);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        even[r] = dot(even[r], first, x + r * 4);
        odd[r] = dot(odd[r], second, x + (kRows + r) * 4);
      });
    }
    __m512i total[kRows];
    unrolled<kRows>([&](auto r) {
      const int32_t sum = r < args.x.rows ? sum_of(args.x, r, columns) : 0;
      total[r] = _mm512_sub_epi32(_mm512_add_epi32(even[r], odd[r]), _mm512_set1_epi32(128 * sum));
    });
    finish(args, block, packed, total);
  }
};

struct Int8Groups {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
    const uint8_t* lines = packed + layout.values;
    const int8_t* x = args.x.values;
    const int32_t* bias = args.x.group_bias;
    const float* input_scales = args.x.group_scales;
    const size_t groups = args.weight.columns / args.weight.group_size;
    const __m512i flip = _mm512_set1_epi8(-128);  // to value + 128, unsigned
    __m512 total[kRows];
    unrolled<kRows>([&](auto r) { total[r] = _mm512_setzero_ps(); });
    for (size_t group = 0; group < groups; ++group, scales += kBlockRows, input_scales += kRows) {
      __m512i sums[kRows];
      unrolled<kRows>([&](auto r) { sums[r] = _mm512_setzero_si512(); });
      const uint8_t* end = lines + args.weight.group_size * kBlockRows;
      do {
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          sums[r] = _mm512_add_epi32(sums[r], _mm512_set1_epi32(offset_bias<128>(bias[r])));
        });
        unrolled<kColumnStep / 4>([&](auto step) [[gnu::always_inline]] {
          const uint8_t* line = lines + step * kLineBytes;
          prefetch(line);
          const __m512i weights = _mm512_xor_si512(_mm512_load_si512(line), flip);
          unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
            sums[r] = dot(sums[r], weights, x + (step * kRows + r) * 4);
          });
        });
        lines += kColumnStep * kBlockRows;
        x += kColumnStep * kRows;
        bias += kRows;
      } while (lines != end);
      const __m512 scale = load_half(scales);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        total[r] = fused(to_float(sums[r]), mul(scale, broadcast(input_scales[r])), total[r]);
      });
    }
    finish(args, block, packed, total);
  }
};

template <typename Format, size_t kRows>
void blocks(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block)
    Format::template block<kRows>(args, layout, block);
}

template <typename Format>
void matvec(const LinearArgs& args) {
  switch (args.x.tile.mr) {
    case 1:
      return blocks<Format, 1>(args);
    case 2:
      return blocks<Format, 2>(args);
    case 4:
      return blocks<Format, 4>(args);
    default:
      return blocks<Format, kMatvecRows>(args);
  }
}

}  // namespace

void matvec_int2_two_level(const LinearArgs& args) { matvec<TwoLevel<2>>(args); }
void matvec_int3_two_level(const LinearArgs& args) { matvec<TwoLevel<3>>(args); }
void matvec_int4_two_level(const LinearArgs& args) { matvec<TwoLevel<4>>(args); }
void matvec_int5_two_level(const LinearArgs& args) { matvec<TwoLevel<5>>(args); }
void matvec_int6_two_level(const LinearArgs& args) { matvec<TwoLevel<6>>(args); }
void matvec_int4(const LinearArgs& args) { matvec<Int4>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }
void matvec_int8_groups(const LinearArgs& args) { matvec<Int8Groups>(args); }

}  // namespace thimble::kernels::avx512vnni
