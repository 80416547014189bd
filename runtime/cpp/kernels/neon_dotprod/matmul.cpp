#include <arm_neon.h>

#include "kernels/neon_dotprod/unpack.h"
#include "kernels/neon_dotprod/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::neon_dotprod {
namespace {

constexpr size_t kRows = kTile.mr;
constexpr size_t kStep = kTile.mr * kTile.kr;

/// Writes 4-column halves in the order of int8 lines: [columns / 4][16][4].
class PanelWriter {
 public:
  explicit PanelWriter(int8_t* panel) : to_(panel) {}

  void operator()(int8x16_t low, int8x16_t high) {
    vst1q_s8(to_, low);
    vst1q_s8(to_ + kLineBytes, high);
    to_ += ++quad_ % 4 == 0 ? kLineBytes + 16 : 16;
  }

 private:
  int8_t* to_;
  size_t quad_ = 0;
};

/// Multiplies every tile of activations with a panel of int8, which is one block.
void multiply_tiles(const LinearArgs& args, const BlockLayout& layout, size_t block,
                    const int8_t* panel) {
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  for (size_t m = 0; m < args.x.rows; m += kRows) {
    int32x4_t acc[kRows][4];
    unrolled<kRows>([&](auto r) { unrolled<4>([&](auto q) { acc[r][q] = vdupq_n_s32(0); }); });
    const int8_t* tile = args.x.values + m * args.x.columns;
    const int8_t* line = panel;
    for (size_t k = 0; k < args.x.columns; k += 4, tile += kStep, line += kLineBytes) {
      const int8x16_t x = vld1q_s8(tile);
      unrolled<4>([&](auto q) [[gnu::always_inline]] {
        const int8x16_t weights = vld1q_s8(line + 16 * q);
        unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
          acc[r][q] = vdotq_laneq_s32(acc[r][q], weights, x, r);
        });
      });
    }
    I32x16 totals[kRows];
    unrolled<kRows>([&](auto r) { unrolled<4>([&](auto q) { totals[r].part[q] = acc[r][q]; }); });
    for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
      store_outputs(args, m + r, block, scaled(totals[r], args.x.params[m + r], packed));
  }
}

/// With a scale for each group: rows kFirst and kFirst + 1 of a tile times a panel.
template <size_t kFirst>
void multiply_two_rows(const LinearArgs& args, const BlockLayout& layout, size_t block, size_t m,
                       const int8_t* panel) {
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
  const int8_t* tile = args.x.values + m * args.x.columns;
  const float* input_scales =
      args.x.group_scales + m * (args.x.columns / args.weight.group_size) + kFirst;
  F32x16 total[2] = {broadcast(0.0f), broadcast(0.0f)};
  for (size_t k = 0; k < args.x.columns; scales += kBlockRows, input_scales += kRows) {
    int32x4_t acc[2][4];
    unrolled<2>([&](auto r) { unrolled<4>([&](auto q) { acc[r][q] = vdupq_n_s32(0); }); });
    for (const size_t end = k + args.weight.group_size; k < end; k += kColumnStep) {
      for (size_t i = 0; i < kColumnStep; i += 4, tile += kStep, panel += kLineBytes) {
        const int8x16_t x = vld1q_s8(tile);
        unrolled<4>([&](auto q) [[gnu::always_inline]] {
          const int8x16_t weights = vld1q_s8(panel + 16 * q);
          unrolled<2>([&](auto r) [[gnu::always_inline]] {
            acc[r][q] = vdotq_laneq_s32(acc[r][q], weights, x, kFirst + r);
          });
        });
      }
    }
    unrolled<4>([&](auto q) [[gnu::always_inline]] {
      const float32x4_t scale = widen_half(scales + 4 * q);
      unrolled<2>([&](auto r) [[gnu::always_inline]] {
        const float32x4_t both = vmulq_n_f32(scale, input_scales[r]);
        total[r].part[q] = vfmaq_f32(total[r].part[q], vcvtq_f32_s32(acc[r][q]), both);
      });
    });
  }
  for (size_t r = 0; r < 2 && m + kFirst + r < args.x.rows; ++r)
    store_outputs(args, m + kFirst + r, block, total[r]);
}

/// The same for every tile of activations.
void multiply_tiles_in_groups(const LinearArgs& args, const BlockLayout& layout, size_t block,
                              const int8_t* panel) {
  for (size_t m = 0; m < args.x.rows; m += kRows) {
    multiply_two_rows<0>(args, layout, block, m, panel);
    if (m + 2 < args.x.rows) multiply_two_rows<2>(args, layout, block, m, panel);
  }
}

template <size_t kBits>
void matmul_two_level(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  int8_t* panel = reinterpret_cast<int8_t*>(args.scratch);
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    unpack_two_level<kBits>(args.weight.data + block * layout.bytes, layout, args.weight.columns,
                            args.weight.group_size, PanelWriter(panel));
    multiply_tiles(args, layout, block, panel);
  }
}

}  // namespace

void matmul_int2_two_level(const LinearArgs& args) { matmul_two_level<2>(args); }
void matmul_int3_two_level(const LinearArgs& args) { matmul_two_level<3>(args); }
void matmul_int4_two_level(const LinearArgs& args) { matmul_two_level<4>(args); }
void matmul_int5_two_level(const LinearArgs& args) { matmul_two_level<5>(args); }
void matmul_int6_two_level(const LinearArgs& args) { matmul_two_level<6>(args); }

void matmul_int4(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  int8_t* panel = reinterpret_cast<int8_t*>(args.scratch);
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    unpack_int4(args.weight.data + block * layout.bytes + layout.values, args.weight.columns,
                PanelWriter(panel));
    multiply_tiles_in_groups(args, layout, block, panel);
  }
}

void matmul_int8(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* packed = args.weight.data + block * layout.bytes;
    multiply_tiles(args, layout, block, reinterpret_cast<const int8_t*>(packed + layout.values));
  }
}

void matmul_int8_groups(const LinearArgs& args) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const uint8_t* lines = args.weight.data + block * layout.bytes + layout.values;
    multiply_tiles_in_groups(args, layout, block, reinterpret_cast<const int8_t*>(lines));
  }
}

}  // namespace thimble::kernels::neon_dotprod
