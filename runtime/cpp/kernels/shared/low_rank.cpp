#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// Vectors that are worked on together: with kFloatRows rows of each, as many as fit the registers.
constexpr size_t kVectors = 4;

/// The matrices are short and read once: the processor's own prefetching starts anew at each.
inline void prefetch_ahead(const uint16_t* address) { __builtin_prefetch(address); }

/// Fewer than 16 numbers, followed by zeros.
inline F32x16 load_some_halves(const uint16_t* from, size_t count) {
  uint16_t lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(uint16_t));
  return load_half(lanes);
}

/// Numbers m .. m + kRows - 1 of columns j .. j + kRanks - 1 of t.
template <size_t kRows, size_t kRanks>
void dot(const ShrinkArgs& args, size_t m, size_t j) {
  const float* x = args.x + m * args.x_stride;
  const uint16_t* a = args.a + j * args.columns;
  F32x16 acc[kRows][kRanks];
  unrolled<kRows>([&](auto r) { unrolled<kRanks>([&](auto c) { acc[r][c] = broadcast(0.0f); }); });
  size_t k = 0;
  const auto add_products = [&](auto load_x, auto load_a) [[gnu::always_inline]] {
    F32x16 rows[kRows];
    unrolled<kRows>([&](auto r) { rows[r] = load_x(x + r * args.x_stride); });
    unrolled<kRanks>([&](auto c) [[gnu::always_inline]] {
      const uint16_t* from = a + c * args.columns;
      prefetch_ahead(from + kRanks * args.columns + k);
      const F32x16 weights = load_a(from);
      unrolled<kRows>([&](auto r) { acc[r][c] = fused(rows[r], weights, acc[r][c]); });
    });
  };
  for (; k + kLanes <= args.columns; k += kLanes) {
    add_products([k](const float* row) [[gnu::always_inline]] { return load(row + k); },
                 [k](const uint16_t* row) [[gnu::always_inline]] { return load_half(row + k); });
  }
  if (const size_t rest = args.columns - k; rest > 0) {
    add_products([=](const float* row) { return load_some(row + k, rest); },
                 [=](const uint16_t* row) { return load_some_halves(row + k, rest); });
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kRanks>([&](auto c) {
      args.t[(m + r) * args.t_stride + j + c] = lane_sum(acc[r][c]) * args.scale;
    });
  });
}

template <size_t kRows>
void dot_all(const ShrinkArgs& args, size_t m) {
  size_t j = 0;
  for (; j + kVectors <= args.rank; j += kVectors) dot<kRows, kVectors>(args, m, j);
  for (; j < args.rank; ++j) dot<kRows, 1>(args, m, j);
}

/// Rows m .. m + kRows - 1 of kBlocks blocks of the product from `block` on.
template <size_t kRows, size_t kBlocks>
[[gnu::always_inline]] inline void multiply(const ExpandArgs& args, size_t m, size_t block,
                                            F32x16 (&acc)[kRows][kBlocks]) {
  const float* t = args.t + m * args.t_stride;
  const uint16_t* b = args.b + block * args.rank * kLanes;
  unrolled<kRows>([&](auto r) { unrolled<kBlocks>([&](auto c) { acc[r][c] = broadcast(0.0f); }); });
  for (size_t j = 0; j < args.rank; ++j) {
    unrolled<kBlocks>([&](auto c) [[gnu::always_inline]] {
      const uint16_t* from = b + (c * args.rank + j) * kLanes;
      prefetch_ahead(from + kBlocks * args.rank * kLanes);
      const F32x16 weights = load_half(from);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        acc[r][c] = fused(broadcast(t[r * args.t_stride + j]), weights, acc[r][c]);
      });
    });
  }
}

/// Adds whole blocks.
template <size_t kRows, size_t kBlocks>
void add_blocks(const ExpandArgs& args, size_t m, size_t block) {
  F32x16 acc[kRows][kBlocks];
  multiply(args, m, block, acc);
  unrolled<kRows>([&](auto r) {
    unrolled<kBlocks>([&](auto c) {
      float* y = args.y + (m + r) * args.y_stride + (block + c) * args.y_block;
      store(y, add(load(y), acc[r][c]));
    });
  });
}

/// Adds the columns of a block that are among the call's.
void add_some(const ExpandArgs& args, size_t m, size_t block) {
  F32x16 acc[1][1];
  multiply(args, m, block, acc);
  float sums[kLanes];
  store(sums, acc[0][0]);
  float* y = args.y + m * args.y_stride + block * args.y_block;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t column = block * kLanes + lane;
    if (column >= args.columns.first && column < args.columns.last) y[lane] += sums[lane];
  }
}

template <size_t kRows>
void add_rows(const ExpandArgs& args, size_t m, size_t first_block, size_t last_block) {
  size_t block = first_block;
  for (; block + kVectors <= last_block; block += kVectors)
    add_blocks<kRows, kVectors>(args, m, block);
  for (; block < last_block; ++block) add_blocks<kRows, 1>(args, m, block);
}

}  // namespace

void shrink(const ShrinkArgs& args) {
  size_t m = 0;
  for (; m + kFloatRows <= args.rows; m += kFloatRows) dot_all<kFloatRows>(args, m);
  for (; m < args.rows; ++m) dot_all<1>(args, m);
}

void expand(const ExpandArgs& args) {
  const auto [first, last] = args.columns;
  const size_t first_block = (first + kLanes - 1) / kLanes, last_block = last / kLanes;
  size_t m = 0;
  for (; m + kFloatRows <= args.rows; m += kFloatRows)
    add_rows<kFloatRows>(args, m, first_block, last_block);
  for (; m < args.rows; ++m) add_rows<1>(args, m, first_block, last_block);
  const bool starts_inside = first % kLanes != 0, one_block = first_block > last_block;
  for (m = 0; m < args.rows; ++m) {
    if (starts_inside) add_some(args, m, first / kLanes);
    if (last % kLanes != 0 && !one_block) add_some(args, m, last_block);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
