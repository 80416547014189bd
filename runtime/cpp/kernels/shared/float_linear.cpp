#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kChains = 4;
/// Columns of a block that stay in the first-level cache, rows of two blocks whose chains fit the
/// registers, and rows of one block of which two chains do where a tile is twice as high.
constexpr size_t kFewColumns = 384, kRowsOfTwo = 3, kRowsOfPairs = 3;

/// Multiplies kRows rows of x with kBlocks blocks, whose chains fit the registers.
template <size_t kRows, size_t kBlocks>
void multiply(const FloatLinearArgs& args, size_t m, size_t block, const float* values,
              size_t block_floats) {
  const size_t columns = args.weight.columns;
  const float* x = args.x + m * args.x_stride;
  F32x16 acc[kRows][kBlocks][kChains];
  unrolled<kRows>([&](auto r) {
    unrolled<kBlocks>(
        [&](auto b) { unrolled<kChains>([&](auto c) { acc[r][b][c] = broadcast(0.0f); }); });
  });
  const auto add_products = [&](auto c, size_t k) [[gnu::always_inline]] {
    F32x16 weights[kBlocks];
    unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
      weights[b] = load(values + b * block_floats + k * kBlockRows);
    });
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      const F32x16 number = broadcast(x[r * args.x_stride + k]);
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        acc[r][b][c] = fused(number, weights[b], acc[r][b][c]);
      });
    });
  };
  size_t k = 0;
  for (; k + kChains <= columns; k += kChains)
    unrolled<kChains>([&](auto c) [[gnu::always_inline]] { add_products(c, k + c); });
  unrolled<kChains>([&](auto c) {
    if (k + c < columns) add_products(c, k + c);
  });
  unrolled<kRows>([&](auto r) {
    unrolled<kBlocks>([&](auto b) {
      const auto& sums = acc[r][b];
      store_outputs(args, m + r, block + b, add(add(sums[0], sums[1]), add(sums[2], sums[3])));
    });
  });
}

/// The same for so many rows and blocks that their chains would not fit the registers: one of the
/// four after the other.
template <size_t kRows, size_t kBlocks>
void multiply_tile(const FloatLinearArgs& args, size_t m, size_t block, const float* values,
                   size_t block_floats) {
  const float* const x = args.x + m * args.x_stride;
  F32x16 sums[kChains][kRows][kBlocks];
  for (size_t chain = 0; chain < kChains; ++chain) {
    F32x16 acc[kRows][kBlocks];
    unrolled<kRows>(
        [&](auto r) { unrolled<kBlocks>([&](auto b) { acc[r][b] = broadcast(0.0f); }); });
    for (size_t k = chain; k < args.weight.columns; k += kChains) {
      F32x16 weights[kBlocks];
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        weights[b] = load(values + b * block_floats + k * kBlockRows);
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const F32x16 number = broadcast(x[r * args.x_stride + k]);
        unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
          acc[r][b] = fused(number, weights[b], acc[r][b]);
        });
      });
    }
    unrolled<kRows>(
        [&](auto r) { unrolled<kBlocks>([&](auto b) { sums[chain][r][b] = acc[r][b]; }); });
  }
  unrolled<kRows>([&](auto r) {
    unrolled<kBlocks>([&](auto b) {
      store_outputs(args, m + r, block + b,
                    add(add(sums[0][r][b], sums[1][r][b]), add(sums[2][r][b], sums[3][r][b])));
    });
  });
}

/// The same for one block of few columns: two of the four at a time, whose sum alone is kept.
template <size_t kRows>
void multiply_pairs(const FloatLinearArgs& args, size_t m, size_t block, const float* values) {
  const size_t columns = args.weight.columns;
  const float* const x = args.x + m * args.x_stride;
  F32x16 sums[kRows];
  unrolled<2>([&](auto pair) {
    F32x16 acc[kRows][2];
    unrolled<kRows>([&](auto r) { acc[r][0] = acc[r][1] = broadcast(0.0f); });
    const auto add_products = [&](auto c, size_t k) [[gnu::always_inline]] {
      const F32x16 weights = load(values + k * kBlockRows);
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        acc[r][c] = fused(broadcast(x[r * args.x_stride + k]), weights, acc[r][c]);
      });
    };
    size_t k = 2 * pair;
    for (; k + 2 <= columns; k += kChains)
      unrolled<2>([&](auto c) [[gnu::always_inline]] { add_products(c, k + c); });
    unrolled<1>([&](auto c) {
      if (k < columns) add_products(c, k);
    });
    unrolled<kRows>([&](auto r) {
      const F32x16 both = add(acc[r][0], acc[r][1]);
      if (pair == 0) {
        sums[r] = both;
      } else {
        store_outputs(args, m + r, block, add(sums[r], both));
      }
    });
  });
}

template <size_t kBlocks>
void multiply_blocks(const FloatLinearArgs& args, size_t block) {
  const size_t block_floats = args.weight.layout().bytes / sizeof(float);
  const float* const values =
      reinterpret_cast<const float*>(args.weight.data) + block * block_floats;
  size_t m = 0;
  const bool few = kBlocks * args.weight.columns <= kFewColumns;
  if constexpr (kBlocks == 2) {
    for (; few && m + kRowsOfTwo <= args.rows; m += kRowsOfTwo) {
      multiply<kRowsOfTwo, kBlocks>(args, m, block, values, block_floats);
    }
  } else if constexpr (kTileRows == 2 * kRowsOfPairs) {
    for (; few && m + kRowsOfPairs <= args.rows; m += kRowsOfPairs) {
      multiply_pairs<kRowsOfPairs>(args, m, block, values);
    }
  }
  for (; m + kTileRows <= args.rows; m += kTileRows) {
    multiply_tile<kTileRows, kBlocks>(args, m, block, values, block_floats);
  }
  for (size_t b = 0; b < kBlocks; ++b) {
    size_t row = m;
    for (; row + kFloatRows <= args.rows; row += kFloatRows) {
      multiply<kFloatRows, 1>(args, row, block + b, values + b * block_floats, block_floats);
    }
    for (; row < args.rows; ++row)
      multiply<1, 1>(args, row, block + b, values + b * block_floats, block_floats);
  }
}

}  // namespace

void float_linear(const FloatLinearArgs& args) {
  size_t block = args.first_block;
  for (; block + kTileBlocks <= args.last_block; block += kTileBlocks) {
    multiply_blocks<kTileBlocks>(args, block);
  }
  for (; block < args.last_block; ++block) multiply_blocks<1>(args, block);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
