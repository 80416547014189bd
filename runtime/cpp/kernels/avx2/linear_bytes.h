#pragma once

/// \file
/// Weights of int8 times the rows of a tile, kAtOnce at a time.

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

struct WholeRows {
  using Total = I32x16;

  template <size_t kMr, size_t kFirst, size_t kCount>
  static void run(const LinearArgs& args, const uint16_t*, const uint8_t* lines,
                  const uint8_t* ahead, const Rows<kMr>& rows, Total* totals) {
    const ColumnRange columns = columns_of(args);
    I32x16 sums[kCount];
    dot<kMr, kFirst, kCount>(lines, ahead, rows, columns.first, columns.last, sums);
    unrolled<kCount>([&](auto r) { totals[kFirst + r] = sums[r]; });
  }
};

struct InGroups {
  using Total = F32x16;

  template <size_t kMr, size_t kFirst, size_t kCount>
  static void run(const LinearArgs& args, const uint16_t* scales, const uint8_t* lines,
                  const uint8_t* ahead, const Rows<kMr>& rows, Total* totals) {
    const size_t group_size = args.weight.group_size;
    F32x16 total[kCount];
    unrolled<kCount>([&](auto r) { total[r] = broadcast(0.0f); });
    for (size_t k = 0; k < args.weight.columns; k += group_size, scales += kBlockRows) {
      I32x16 sums[kCount];
      dot<kMr, kFirst, kCount>(lines, ahead, rows, k, k + group_size, sums);
      const F32x16 scale = load_half(scales);
      const float* input_scales = rows.group_scales + k / group_size * kMr + kFirst;
      unrolled<kCount>([&](auto r) [[gnu::always_inline]] {
        const F32x16 both = mul(scale, broadcast(input_scales[r]));
        total[r] = fused(to_float(sums[r]), both, total[r]);
      });
    }
    unrolled<kCount>([&](auto r) { totals[kFirst + r] = total[r]; });
  }
};

template <typename Format>
void linear_bytes(const LinearArgs& args) {
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
          const size_t pass = (m / kCount + i) % kBytePasses<kMr>;
          const uint8_t* ahead = prefetch_from<kBytePasses<kMr>>(lines, layout.bytes, bytes, pass);
          Format::template run<kMr, i * kCount, kCount>(args, scales, lines, ahead, rows, totals);
        });
        for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
          store_totals(args, m + r, block, totals[r], packed);
      }
    }
  });
}

}  // namespace
}  // namespace thimble::kernels::THIMBLE_VARIANT
