#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kChains = 4;
/// Columns of which a block stays in the first-level cache: of more, twice as many rows share what
/// is loaded, with half of the chains at a time.
constexpr size_t kFewColumns = 384;

template <size_t kValue>
using Constant = std::integral_constant<size_t, kValue>;

/// Multiplies kRows rows of x with kBlocks blocks, kTogether of their chains at a time, which fit
/// the registers.
/// \param ahead what is fetched meanwhile: processors foresee no loads that are four lines apart.
/// \tparam kWhole the columns are a multiple of kChains: else GCC keeps chains in memory.
template <size_t kRows, size_t kBlocks, size_t kTogether, bool kWhole>
void multiply(const FloatLinearArgs& args, size_t m, size_t block, const float* values,
              size_t block_floats, const float* ahead) {
  const size_t columns = args.weight.columns;
  const float* const x = args.x + m * args.x_stride;
  const auto each = [](auto operation) [[gnu::always_inline]] {
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] { operation(r, b); });
    });
  };
  F32x16 pairs[2][kRows][kBlocks];  // the sums of chains 0 and 1, and of 2 and 3
  unrolled<kChains / kTogether>([&](auto group) [[gnu::always_inline]] {
    F32x16 acc[kTogether][kRows][kBlocks];
    unrolled<kTogether>([&](auto c) [[gnu::always_inline]] {
      each([&](auto r, auto b) [[gnu::always_inline]] { acc[c][r][b] = broadcast(0.0f); });
    });
    const auto add_products = [&](auto c, size_t k) [[gnu::always_inline]] {
      F32x16 weights[kBlocks];
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        weights[b] = in_register(load(values + b * block_floats + k * kBlockRows));
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const F32x16 number = broadcast(x[r * args.x_stride + k]);
        unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
          acc[c][r][b] = fused(number, weights[b], acc[c][r][b]);
        });
      });
    };
    size_t k = group * kTogether;
    for (; k + kTogether <= columns; k += kChains) {
      unrolled<kRows == 1 ? 0 : kBlocks>([&](auto) [[gnu::always_inline]] {
        __builtin_prefetch(ahead, 0, 2);
        ahead += kBlockRows;
      });
      unrolled<kTogether>([&](auto c) [[gnu::always_inline]] { add_products(c, k + c); });
    }
    if constexpr (!kWhole) {
      unrolled<kTogether - 1>([&](auto c) [[gnu::always_inline]] {
        if (k + c < columns) add_products(c, k + c);
      });
    }
    each([&](auto r, auto b) [[gnu::always_inline]] {
      if constexpr (kTogether == 4) {
        pairs[0][r][b] = add(acc[0][r][b], acc[1][r][b]);
        pairs[1][r][b] = add(acc[2][r][b], acc[3][r][b]);
      } else if constexpr (kTogether == 2) {
        pairs[group][r][b] = add(acc[0][r][b], acc[1][r][b]);
      } else {
        F32x16& pair = pairs[group / 2][r][b];
        pair = group % 2 == 0 ? acc[0][r][b] : add(pair, acc[0][r][b]);
      }
    });
  });
  float sums[kRows][kBlocks][kBlockRows];  // as calls would move registers to memory one by one
  each([&](auto r, auto b)
           [[gnu::always_inline]] { store(sums[r][b], add(pairs[0][r][b], pairs[1][r][b])); });
  each([&](auto r, auto b) { store_outputs(args, m + r, block + b, load(sums[r][b])); });
}

template <size_t kBlocks, bool kWhole>
void multiply_blocks(const FloatLinearArgs& args, size_t block) {
  const size_t block_floats = args.weight.layout().bytes / sizeof(float);
  const float* const values =
      reinterpret_cast<const float*>(args.weight.data) + block * block_floats;
  size_t m = 0, fetched = 0;
  const auto tiles = [&](auto rows, auto together) [[gnu::always_inline]] {
    for (; m + rows <= args.rows; m += rows) {
      const bool fetches = fetched < kBlocks * block_floats;
      multiply<rows, kBlocks, together, kWhole>(
          args, m, block, values, block_floats,
          fetches ? values + kBlocks * block_floats + fetched : values);
      fetched += kBlocks * (block_floats / together);
    }
  };
  if (kTileChains == 2 && args.weight.columns > kFewColumns) {
    tiles(Constant<2 * kTileRows>{}, Constant<1>{});
  }
  tiles(Constant<kTileRows>{}, Constant<kTileChains>{});
  tiles(Constant<1>{}, Constant<kChains>{});
}

template <bool kWhole>
void multiply_all(const FloatLinearArgs& args) {
  size_t block = args.first_block;
  for (; block + kTileBlocks <= args.last_block; block += kTileBlocks) {
    multiply_blocks<kTileBlocks, kWhole>(args, block);
  }
  for (; block < args.last_block; ++block) multiply_blocks<1, kWhole>(args, block);
}

}  // namespace

void float_linear(const FloatLinearArgs& args) {
  args.weight.columns % kChains == 0 ? multiply_all<true>(args) : multiply_all<false>(args);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
