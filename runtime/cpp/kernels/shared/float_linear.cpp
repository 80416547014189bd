#include <limits>

#include THIMBLE_VARIANT_HEADER
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

/// What is known of the columns when it is compiled: whether rows are in parts, and how many
/// columns the last four lack or, if none, 0. Where these were conditions, GCC would keep chains in
/// memory.
template <bool kInParts, size_t kRest>
struct Columns {
  static constexpr bool in_parts = kInParts;
  static constexpr size_t rest = kRest;
};

/// Between which numbers an activation keeps its output.
struct Bounds {
  explicit Bounds(Function activation)
      : low(broadcast(activation == Function::kAdd ? -kInfinity : 0.0f)),
        high(broadcast(activation == Function::kRelu6 ? 6.0f : kInfinity)) {}

  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const F32x16 low, high;
};

/// Adds bias and the old values, bounds and stores the outputs of a block.
[[gnu::always_inline]] inline void store_outputs(const FloatLinearArgs& args, const Bounds& bounds,
                                                 size_t m, size_t n, F32x16 y) {
  float* const to = args.y + m * args.y_stride + n;
  if (args.bias != nullptr) y = add(y, load(args.bias + n));
  if (args.accumulate) y = add(y, load(to));
  store(to, min(bounds.high, max(bounds.low, y)));
}

/// The same of the last block, of fewer than 16 rows, one by one.
inline void store_some_outputs(const FloatLinearArgs& args, const Bounds& bounds, size_t m,
                               size_t n, const float* outputs) {
  float* const to = args.y + m * args.y_stride + n;
  float bounded[kBlockRows] = {};
  for (size_t i = 0; n + i < args.weight.rows; ++i) {
    bounded[i] = outputs[i];
    if (args.bias != nullptr) bounded[i] += args.bias[n + i];
    if (args.accumulate) bounded[i] += to[i];
  }
  store(bounded, min(bounds.high, max(bounds.low, load(bounded))));
  for (size_t i = 0; n + i < args.weight.rows; ++i) to[i] = bounded[i];
}

/// Those of some rows and blocks, of which the last has fewer rows.
/// \param sums [rows][blocks][kBlockRows]
[[gnu::noinline]] void store_last_outputs(const FloatLinearArgs& args, const float* sums, size_t m,
                                          size_t rows, size_t block, size_t blocks) {
  const Bounds bounds(args.activation);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t b = 0; b < blocks; ++b, sums += kBlockRows) {
      const size_t n = (block + b) * kBlockRows;
      b + 1 < blocks ? store_outputs(args, bounds, m + r, n, load(sums))
                     : store_some_outputs(args, bounds, m + r, n, sums);
    }
  }
}

/// Multiplies kRows rows of x with kBlocks blocks, kTogether of their chains at a time, which fit
/// the registers.
/// \param ahead what is fetched meanwhile: processors foresee no loads that are four lines apart.
template <size_t kRows, size_t kBlocks, size_t kTogether, typename Known>
void multiply(const FloatLinearArgs& args, size_t m, size_t block, const float* values,
              size_t block_floats, const float* ahead) {
  const size_t columns = args.weight.columns;
  const float* const x = Known::in_parts ? nullptr : args.x + m * args.x_stride;
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
    const float* of_row[kRows];  // of parts: column 0, if it lay before them
    const float* const* next = Known::in_parts ? args.parts + m * args.parts_of_row : nullptr;
    const auto add_products = [&](auto c, size_t k) [[gnu::always_inline]] {
      F32x16 weights[kBlocks];
      unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
        weights[b] = in_register(load(values + b * block_floats + k * kBlockRows));
      });
      unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
        const F32x16 number = broadcast(Known::in_parts ? of_row[r][k] : x[r * args.x_stride + k]);
        unrolled<kBlocks>([&](auto b) [[gnu::always_inline]] {
          acc[c][r][b] = fused(number, weights[b], acc[c][r][b]);
        });
      });
    };
    constexpr size_t kFirst = group * kTogether;
    size_t end = 0;
    for (size_t k = 0; k + kChains <= columns; k += kChains) {
      if (Known::in_parts && k == end) {
        unrolled<kRows>(
            [&](auto r) [[gnu::always_inline]] { of_row[r] = next[r * args.parts_of_row] - k; });
        ++next;
        end += columns / args.parts_of_row;
      }
      unrolled<kRows == 1 ? 0 : kBlocks>([&](auto) [[gnu::always_inline]] {
        __builtin_prefetch(ahead, 0, 2);
        ahead += kBlockRows;
      });
      unrolled<kTogether>([&](auto c) [[gnu::always_inline]] { add_products(c, k + kFirst + c); });
    }
    unrolled<kTogether>([&](auto c) [[gnu::always_inline]] {
      if constexpr (kFirst + c < Known::rest) {
        add_products(c, columns - Known::rest + kFirst + c);
      }
    });
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
  if ((block + kBlocks) * kBlockRows <= args.weight.rows) {
    const Bounds bounds(args.activation);
    each([&](auto r, auto b) [[gnu::always_inline]] {
      store_outputs(args, bounds, m + r, (block + b) * kBlockRows,
                    add(pairs[0][r][b], pairs[1][r][b]));
    });
  } else {
    float sums[kRows][kBlocks][kBlockRows];
    each([&](auto r, auto b)
             [[gnu::always_inline]] { store(sums[r][b], add(pairs[0][r][b], pairs[1][r][b])); });
    store_last_outputs(args, sums[0][0], m, kRows, block, kBlocks);
  }
}

template <size_t kBlocks, typename Known>
void multiply_blocks(const FloatLinearArgs& args, size_t block) {
  const size_t block_floats = args.weight.layout().bytes / sizeof(float);
  const float* const values =
      reinterpret_cast<const float*>(args.weight.data) + block * block_floats;
  size_t m = 0, fetched = 0;
  const auto tiles = [&](auto rows, auto together) [[gnu::always_inline]] {
    for (; m + rows <= args.rows; m += rows) {
      const bool fetches = fetched < kBlocks * block_floats;
      multiply<rows, kBlocks, together, Known>(
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

template <typename Known>
void multiply_all(const FloatLinearArgs& args) {
  size_t block = args.first_block;
  for (; block + kTileBlocks <= args.last_block; block += kTileBlocks) {
    multiply_blocks<kTileBlocks, Known>(args, block);
  }
  for (; block < args.last_block; ++block) multiply_blocks<1, Known>(args, block);
}

}  // namespace

void float_linear(const FloatLinearArgs& args) {
  if (args.parts != nullptr) return multiply_all<Columns<true, 0>>(args);
  switch (args.weight.columns % kChains) {
    case 0:
      return multiply_all<Columns<false, 0>>(args);
    case 1:
      return multiply_all<Columns<false, 1>>(args);
    case 2:
      return multiply_all<Columns<false, 2>>(args);
    default:
      return multiply_all<Columns<false, 3>>(args);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
