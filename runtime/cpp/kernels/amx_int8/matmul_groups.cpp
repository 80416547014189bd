#include <immintrin.h>

#include "kernels/amx_int8/matmul.h"
#include "kernels/amx_int8/panel.h"
#include "kernels/amx_int8/tiles.h"
#include "kernels/amx_int8/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::amx_int8 {
namespace {

/// 16 rows of activations times a block, group by group: the tile registers hold the sums of a
/// group, memory those of a few groups, and registers the outputs.
class BlockProduct {
 public:
  /// \param panel the block's values, int8 [columns / 4][16][4].
  BlockProduct(const LinearArgs& args, const BlockLayout& layout, size_t block,
               const uint8_t* panel)
      : args_(args),
        packed_(args.weight.data + block * layout.bytes),
        scales_(reinterpret_cast<const uint16_t*>(packed_ + layout.scales)),
        panel_(panel),
        block_(block) {}

  void run(size_t m) const {
    const size_t columns = args_.x.columns, group_size = args_.weight.group_size;
    const int8_t* x = args_.x.values + m * columns;
    __m512 total[kTileRows];
    unrolled<kTileRows>([&](auto r) { total[r] = _mm512_setzero_ps(); });
    const uint16_t* scales = scales_;
    const float* input_scales = args_.x.group_scales + m * (columns / group_size);
    for (size_t k = 0; k < columns; k += kAtOnce * group_size) {
      alignas(kLineBytes) int32_t sums[kAtOnce][kTileSums];
      unrolled<kAtOnce>([&](auto i) {
        if (k + i * group_size < columns) multiply_group<i>(x, k + i * group_size, sums[i]);
      });
      for (size_t i = 0; i < kAtOnce && k + i * group_size < columns; ++i) {
        const __m512 scale = load_half(scales);
        unrolled<kTileRows>([&](auto r) [[gnu::always_inline]] {
          const __m512 sum = to_float(load(sums[i] + r * kBlockRows));
          total[r] = fused(sum, mul(scale, broadcast(input_scales[r])), total[r]);
        });
        scales += kBlockRows;
        input_scales += kTileRows;
      }
    }
    alignas(kLineBytes) __m512 totals[kTileRows];
    unrolled<kTileRows>([&](auto r) { totals[r] = total[r]; });
    for (size_t r = 0; r < kTileRows && m + r < args_.x.rows; ++r)
      store_outputs(args_, m + r, block_, totals[r]);
  }

 private:
  static constexpr size_t kAtOnce = kSumTiles;

  /// The sums of the group at column k, in tile register kSum.
  template <int kSum>
  void multiply_group(const int8_t* x, size_t k, int32_t* sums) const {
    zero_tile<kSum>();
    const size_t end = k + args_.weight.group_size;
    const size_t columns = args_.weight.group_size < kTileColumns ? kColumnStep : kTileColumns;
    for (; k < end; k += columns) {
      const size_t step = k / kTileColumns * kTileColumns;
      const size_t width = args_.x.columns - step < kTileColumns ? kColumnStep : kTileColumns;
      load_tile<4 + kSum % 2>(x + step * kTileRows + (k - step), width);
      load_tile<6 + kSum % 2>(panel_ + k * kBlockRows);
      multiply_tiles<kSum, 4 + kSum % 2, 6 + kSum % 2>();
    }
    store_tile<kSum>(sums);
  }

  const LinearArgs& args_;
  const uint8_t* packed_;
  const uint16_t* scales_;
  const uint8_t* panel_;
  size_t block_;
};

/// `panel_of(lines)` is the panel of a block.
template <typename PanelOf>
void matmul_in_groups(const LinearArgs& args, PanelOf panel_of) {
  const BlockLayout layout = args.weight.layout();
  const TileScope tiles(args.weight.group_size < kTileColumns ? kColumnStep : kTileColumns);
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const BlockProduct product(args, layout, block,
                               panel_of(args.weight.data + block * layout.bytes + layout.values));
    for (size_t m = 0; m < args.x.rows; m += kTileRows) product.run(m);
  }
}

}  // namespace

void matmul_int4(const LinearArgs& args) {
  matmul_in_groups(args, [&](const uint8_t* lines) {
    unpack_int4(lines, args.x.columns, args.scratch);
    return args.scratch;
  });
}

/// Its lines are the rows of a tile register.
void matmul_int8_groups(const LinearArgs& args) {
  matmul_in_groups(args, [](const uint8_t* lines) { return lines; });
}

}  // namespace thimble::kernels::amx_int8
