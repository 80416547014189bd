#pragma once

/// \file
/// Weights of codes times the rows of a tile, up to four at a time.

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

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
            total[h][r] = add_times<Codes::kBits>(total[h][r], acc[h][r], multiple[h]);
          });
        });
      }
    }
    unrolled<kHalves>([&](auto h) {
      unrolled<kRows>(
          [&](auto r) { totals[h][r] = _mm256_sub_epi32(_mm256_setzero_si256(), total[h][r]); });
    });
  }
};

template <typename OfCodes>
struct Plain {
  using Codes = OfCodes;
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
          unrolled<kRows>(
              [&](auto r) [[gnu::always_inline]] { sum[h][r] = add_sums(sum[h][r], acc[h][r]); });
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

/// For one row and for tiles; codes that are to be unpacked are so before.
template <typename Format>
void linear_codes(const LinearArgs& args) {
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
}  // namespace thimble::kernels::THIMBLE_VARIANT
