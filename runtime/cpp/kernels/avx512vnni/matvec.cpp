#include <immintrin.h>

#include "kernels/avx512vnni/dot.h"
#include "kernels/avx512vnni/variant.h"
#include "kernels/epilogue.h"
#include "kernels/functions.h"
#include "kernels/unrolled.h"

namespace thimble::kernels::avx512vnni {
namespace {

/// How far ahead of the line in use weights are asked for: into the second-level cache, whose many
/// requests in flight make the bandwidth, and shortly before use into the first.
constexpr size_t kFarBytes = 4096, kNearBytes = 512;

inline void prefetch(const uint8_t* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line + kFarBytes), _MM_HINT_T1);
  _mm_prefetch(reinterpret_cast<const char*>(line + kNearBytes), _MM_HINT_T0);
}

/// The integer dot products of a block's group with kRows rows, for kColumnStep columns at a time:
/// low nibbles in one accumulator, high ones, 16 times too large, in another.
template <size_t kRows>
struct GroupDot {
  __m512i low[kRows];
  __m512i high[kRows];

  [[gnu::always_inline]] void run(const uint8_t* lines, const int8_t* const (&x)[kRows],
                                  const int32_t* const (&bias)[kRows], size_t k,
                                  size_t group_size) {
    const __m512i low_mask = _mm512_set1_epi8(0x0F), high_mask = _mm512_set1_epi8(-16);
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      low[r] = _mm512_set1_epi32(bias[r][k / kColumnStep]);
      high[r] = _mm512_setzero_si512();
    });
    for (size_t end = k + group_size;;) {
      unrolled<kColumnStep / 8>([&](auto step) [[gnu::always_inline]] {
        const uint8_t* line = lines + step * kLineBytes;
        prefetch(line);
        const __m512i bytes = _mm512_load_si512(line);
        const __m512i low_nibbles = _mm512_and_si512(bytes, low_mask);
        const __m512i high_nibbles = _mm512_and_si512(bytes, high_mask);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          low[r] = dot(low[r], low_nibbles, x[r] + k + step * 8);
          high[r] = dot(high[r], high_nibbles, x[r] + k + step * 8 + 4);
        });
      });
      k += kColumnStep;
      lines += kColumnStep / 8 * kLineBytes;
      if (k == end) break;
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        low[r] = _mm512_add_epi32(low[r], _mm512_set1_epi32(bias[r][k / kColumnStep]));
      });
    }
  }

  [[gnu::always_inline]] __m512i total(size_t r) const {
    return _mm512_add_epi32(low[r], _mm512_srai_epi32(high[r], 4));
  }
};

/// The pointers of `count` plain rows from `first` on; those of the last again up to kRows.
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

/// Scales and stores the outputs of `count` rows.
template <size_t kRows, typename Vector>
void finish(const LinearArgs& args, size_t block, size_t first, size_t count, const uint8_t* packed,
            const Vector (&total)[kRows]) {
  alignas(kLineBytes) Vector totals[kRows];
  unrolled<kRows>([&](auto r) { totals[r] = total[r]; });
  for (size_t r = 0; r < count; ++r)
    store_outputs(args, first + r, block, scaled(totals[r], args.x.params[first + r], packed));
}

struct Int4TwoLevel {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block, size_t first,
                    size_t count) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const Rows<kRows> rows(args.x, first, count);
    const uint8_t* scales = packed + layout.scales;
    const uint8_t* lines = packed + layout.values;
    __m512i total[kRows];
    unrolled<kRows>([&](auto r) { total[r] = _mm512_setzero_si512(); });
    __m512i multiples = _mm512_setzero_si512();
    for (size_t k = 0, group = 0; k < columns; k += group_size, ++group) {
      if (group % 8 == 0) {
        multiples = _mm512_load_si512(scales);
        prefetch(scales);
        scales += kLineBytes;
      }
      GroupDot<kRows> dots;
      dots.run(lines + k * 8, rows.x, rows.bias, k, group_size);
      const __m512i multiple = _mm512_and_si512(multiples, _mm512_set1_epi32(15));
      multiples = _mm512_srli_epi32(multiples, 4);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        total[r] = _mm512_add_epi32(total[r], _mm512_mullo_epi32(dots.total(r), multiple));
      });
    }
    finish(args, block, first, count, packed, total);
  }
};

struct Int4 {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block, size_t first,
                    size_t count) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const size_t columns = args.weight.columns, group_size = args.weight.group_size;
    const Rows<kRows> rows(args.x, first, count);
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
    const uint8_t* lines = packed + layout.values;
    __m512 total[kRows];
    unrolled<kRows>([&](auto r) { total[r] = _mm512_setzero_ps(); });
    for (size_t k = 0; k < columns; k += group_size, scales += kBlockRows) {
      GroupDot<kRows> dots;
      dots.run(lines + k * 8, rows.x, rows.bias, k, group_size);
      const __m512 scale = load_bfloat16(scales);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        total[r] = add(total[r], mul(to_float(dots.total(r)), scale));
      });
    }
    finish(args, block, first, count, packed, total);
  }
};

struct Int8 {
  template <size_t kRows>
  static void block(const LinearArgs& args, const BlockLayout& layout, size_t block, size_t first,
                    size_t count) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    const uint8_t* lines = packed + layout.values;
    const Rows<kRows> rows(args.x, first, count);
    const __m512i flip = _mm512_set1_epi8(-128);  // to value + 128, unsigned
    __m512i even[kRows], odd[kRows];
    unrolled<kRows>([&](auto r) {
      even[r] = _mm512_setzero_si512();
      odd[r] = _mm512_setzero_si512();
    });
    for (size_t k = 0; k < args.weight.columns; k += 8, lines += 2 * kLineBytes) {
      prefetch(lines);
      prefetch(lines + kLineBytes);
      const __m512i first_line = _mm512_xor_si512(_mm512_load_si512(lines), flip);
      const __m512i second_line = _mm512_xor_si512(_mm512_load_si512(lines + kLineBytes), flip);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        even[r] = dot(even[r], first_line, rows.x[r] + k);
        odd[r] = dot(odd[r], second_line, rows.x[r] + k + 4);
      });
    }
    __m512i total[kRows];
    unrolled<kRows>([&](auto r) {
      const size_t row = first + (r < count ? r : count - 1);
      const __m512i offset = _mm512_set1_epi32(128 * args.x.params[row].sum);
      total[r] = _mm512_sub_epi32(_mm512_add_epi32(even[r], odd[r]), offset);
    });
    finish(args, block, first, count, packed, total);
  }
};

template <typename Format>
void matvec(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    for (size_t first = 0; first < args.x.rows; first += kMatvecRows) {
      const size_t count = args.x.rows - first;
      if (count == 1) {
        Format::template block<1>(args, layout, block, first, 1);
      } else if (count == 2) {
        Format::template block<2>(args, layout, block, first, 2);
      } else if (count <= 4) {
        Format::template block<4>(args, layout, block, first, count);
      } else {
        Format::template block<kMatvecRows>(args, layout, block, first,
                                            count < kMatvecRows ? count : kMatvecRows);
      }
    }
  }
}

}  // namespace

void matvec_int4_two_level(const LinearArgs& args) { matvec<Int4TwoLevel>(args); }
void matvec_int4(const LinearArgs& args) { matvec<Int4>(args); }
void matvec_int8(const LinearArgs& args) { matvec<Int8>(args); }

}  // namespace thimble::kernels::avx512vnni
