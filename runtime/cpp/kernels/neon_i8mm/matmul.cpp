#include <arm_neon.h>

#include <cstring>

#include "kernels/neon_dotprod/unpack.h"
#include "kernels/neon_i8mm/variant.h"
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::neon_i8mm {
namespace {

constexpr size_t kRows = kTile.mr;
constexpr size_t kStep = kTile.mr * kTile.kr;
constexpr size_t kPairs = kRows / 2;           // of activation rows, one to a register
constexpr size_t kHalfPairs = 4;               // of weight rows, in half a block
constexpr size_t kPanelStep = kBlockRows * 8;  // bytes of a panel for 8 columns

/// Writes panels of [columns / 8][16][8]: two weight rows to a register.
class PanelWriter {
 public:
  explicit PanelWriter(int8_t* panel) : to_(panel) {}

  void operator()(int8x16_t low, int8x16_t high) {
    const int32x4_t first = vreinterpretq_s32_s8(low), second = vreinterpretq_s32_s8(high);
    vst1q_s8(to_, vreinterpretq_s8_s32(vzip1q_s32(first, second)));
    vst1q_s8(to_ + 16, vreinterpretq_s8_s32(vzip2q_s32(first, second)));
    to_ += 32;
  }

 private:
  int8_t* to_;
};

/// Two rows of sums from products of row pairs: [pair][x0 w0, x0 w1, x1 w0, x1 w1].
template <typename Vector, typename Lane>
inline void write_pair(const Vector (&products)[kHalfPairs], Lane* first, Lane* second) {
  alignas(16) Lane lanes[4];
  for (size_t pair = 0; pair < kHalfPairs; ++pair) {
    std::memcpy(lanes, &products[pair], sizeof lanes);
    first[2 * pair] = lanes[0];
    first[2 * pair + 1] = lanes[1];
    second[2 * pair] = lanes[2];
    second[2 * pair + 1] = lanes[3];
  }
}

/// Multiplies every tile of activations with a panel of int8.
void multiply_tiles(const LinearArgs& args, const BlockLayout& layout, size_t block) {
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  for (size_t m = 0; m < args.x.rows; m += kRows) {
    int32_t totals[kRows][kBlockRows];
    for (size_t half = 0; half < 2; ++half) {
      int32x4_t acc[kPairs][kHalfPairs];
      unrolled<kPairs>(
          [&](auto p) { unrolled<kHalfPairs>([&](auto w) { acc[p][w] = vdupq_n_s32(0); }); });
      const int8_t* tile = args.x.values + m * args.x.columns;
      const int8_t* panel = reinterpret_cast<int8_t*>(args.scratch) + half * kPanelStep / 2;
      for (size_t k = 0; k < args.x.columns; k += 8, tile += kStep, panel += kPanelStep) {
        int8x16_t weights[kHalfPairs];
        unrolled<kHalfPairs>([&](auto w)
                                 [[gnu::always_inline]] { weights[w] = vld1q_s8(panel + 16 * w); });
        unrolled<kPairs>([&](auto p) [[gnu::always_inline]] {
          const int8x16_t x = vld1q_s8(tile + 16 * p);
          unrolled<kHalfPairs>([&](auto w) [[gnu::always_inline]] {
            acc[p][w] = vmmlaq_s32(acc[p][w], x, weights[w]);
          });
        });
      }
      unrolled<kPairs>([&](auto p) {
        write_pair(acc[p], totals[2 * p] + 8 * half, totals[2 * p + 1] + 8 * half);
      });
    }
    for (size_t r = 0; r < kRows && m + r < args.x.rows; ++r)
      store_outputs(args, m + r, block, scaled(load(totals[r]), args.x.params[m + r], packed));
  }
}

/// With a scale for each group: two pairs of a tile's rows, from row m on, times half a panel.
void multiply_half(const LinearArgs& args, const uint16_t* scales, size_t m, size_t half,
                   float (&totals)[4][kBlockRows]) {
  const size_t columns = args.x.columns;
  const int8_t* tile = args.x.values + m / kRows * kRows * columns + m % kRows * 8;
  const int8_t* panel = reinterpret_cast<int8_t*>(args.scratch) + half * kPanelStep / 2;
  const float* input_scales =
      args.x.group_scales + m / kRows * kRows * (columns / args.weight.group_size) + m % kRows;
  float32x4_t total[2][kHalfPairs];
  unrolled<2>([&](auto p) { unrolled<kHalfPairs>([&](auto w) { total[p][w] = vdupq_n_f32(0); }); });
  for (size_t k = 0; k < columns; scales += kBlockRows, input_scales += kRows) {
    int32x4_t acc[2][kHalfPairs];
    unrolled<2>([&](auto p) { unrolled<kHalfPairs>([&](auto w) { acc[p][w] = vdupq_n_s32(0); }); });
    for (const size_t end = k + args.weight.group_size; k < end; k += kColumnStep) {
      for (size_t i = 0; i < kColumnStep; i += 8, tile += kStep, panel += kPanelStep)
        unrolled<kHalfPairs>([&](auto w) [[gnu::always_inline]] {
          const int8x16_t weights = vld1q_s8(panel + 16 * w);
          unrolled<2>([&](auto p) [[gnu::always_inline]] {
            acc[p][w] = vmmlaq_s32(acc[p][w], vld1q_s8(tile + 16 * p), weights);
          });
        });
    }
    unrolled<2>([&](auto w) [[gnu::always_inline]] {
      const float32x4_t four = widen_half(scales + 8 * half + 4 * w);
      const float32x4_t first = vcombine_f32(vget_low_f32(four), vget_low_f32(four));
      const float32x4_t second = vcombine_f32(vget_high_f32(four), vget_high_f32(four));
      unrolled<2>([&](auto p) [[gnu::always_inline]] {
        const float32x4_t of_pair = vcombine_f32(vld1_dup_f32(input_scales + 2 * p),
                                                 vld1_dup_f32(input_scales + 2 * p + 1));
        float32x4_t(&sums)[kHalfPairs] = total[p];
        sums[2 * w] =
            vfmaq_f32(sums[2 * w], vcvtq_f32_s32(acc[p][2 * w]), vmulq_f32(first, of_pair));
        sums[2 * w + 1] = vfmaq_f32(sums[2 * w + 1], vcvtq_f32_s32(acc[p][2 * w + 1]),
                                    vmulq_f32(second, of_pair));
      });
    });
  }
  unrolled<2>([&](auto p) {
    write_pair(total[p], totals[2 * p] + 8 * half, totals[2 * p + 1] + 8 * half);
  });
}

/// The same for every tile of activations.
void multiply_tiles_in_groups(const LinearArgs& args, const BlockLayout& layout, size_t block) {
  const uint8_t* packed = args.weight.data + block * layout.bytes;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(packed + layout.scales);
  for (size_t m = 0; m < args.x.rows; m += 4) {
    float totals[4][kBlockRows];
    for (size_t half = 0; half < 2; ++half) multiply_half(args, scales, m, half, totals);
    for (size_t r = 0; r < 4 && m + r < args.x.rows; ++r)
      store_outputs(args, m + r, block, load(totals[r]));
  }
}

/// The values of an int8 block.
void unpack_int8(const uint8_t* lines, size_t columns, PanelWriter write) {
  const int8_t* values = reinterpret_cast<const int8_t*>(lines);
  for (size_t k = 0; k < columns; k += 8, values += 2 * kLineBytes)
    for (size_t quad = 0; quad < 4; ++quad)
      write(vld1q_s8(values + 16 * quad), vld1q_s8(values + kLineBytes + 16 * quad));
}

/// `unpack(packed, write)` unpacks a block, `multiply` multiplies it.
template <typename Unpack, typename Multiply>
void matmul(const LinearArgs& args, Unpack unpack, Multiply multiply) {
  const BlockLayout layout = args.weight.layout();
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    unpack(args.weight.data + block * layout.bytes, layout,
           PanelWriter(reinterpret_cast<int8_t*>(args.scratch)));
    multiply(args, layout, block);
  }
}

template <size_t kBits>
void matmul_two_level(const LinearArgs& args) {
  const auto unpack = [&](const uint8_t* packed, const BlockLayout& layout, PanelWriter write) {
    unpack_two_level<kBits>(packed, layout, args.weight.columns, args.weight.group_size, write);
  };
  matmul(args, unpack, multiply_tiles);
}

}  // namespace

void matmul_int2_two_level(const LinearArgs& args) { matmul_two_level<2>(args); }
void matmul_int3_two_level(const LinearArgs& args) { matmul_two_level<3>(args); }
void matmul_int4_two_level(const LinearArgs& args) { matmul_two_level<4>(args); }
void matmul_int5_two_level(const LinearArgs& args) { matmul_two_level<5>(args); }
void matmul_int6_two_level(const LinearArgs& args) { matmul_two_level<6>(args); }

void matmul_int4(const LinearArgs& args) {
  const auto unpack = [&](const uint8_t* packed, const BlockLayout& layout, PanelWriter write) {
    unpack_int4(packed + layout.values, args.weight.columns, write);
  };
  matmul(args, unpack, multiply_tiles_in_groups);
}

void matmul_int8(const LinearArgs& args) {
  const auto unpack = [&](const uint8_t* packed, const BlockLayout& layout, PanelWriter write) {
    unpack_int8(packed + layout.values, args.weight.columns, write);
  };
  matmul(args, unpack, multiply_tiles);
}

void matmul_int8_groups(const LinearArgs& args) {
  const auto unpack = [&](const uint8_t* packed, const BlockLayout& layout, PanelWriter write) {
    unpack_int8(packed + layout.values, args.weight.columns, write);
  };
  matmul(args, unpack, multiply_tiles_in_groups);
}

}  // namespace thimble::kernels::neon_i8mm
