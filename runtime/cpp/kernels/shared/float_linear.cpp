#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/epilogue.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/unrolled.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kChains = 4;

/// Multiplies kRows rows of x with a block; kRows is limited by the registers for their chains.
template <size_t kRows>
void multiply(const FloatLinearArgs& args, size_t m, size_t block, const float* values) {
  const size_t columns = args.weight.columns;
  const float* x = args.x + m * args.x_stride;
  F32x16 acc[kRows][kChains];
  unrolled<kRows>([&](auto r) { unrolled<kChains>([&](auto c) { acc[r][c] = broadcast(0.0f); }); });
  const auto add_products = [&](auto c, size_t k) [[gnu::always_inline]] {
    const F32x16 weights = load(values + k * kBlockRows);
    unrolled<kRows>([&](auto r) [[gnu::always_inline]] {
      acc[r][c] = fused(broadcast(x[r * args.x_stride + k]), weights, acc[r][c]);
    });
  };
  size_t k = 0;
  for (; k + kChains <= columns; k += kChains)
    unrolled<kChains>([&](auto c) [[gnu::always_inline]] { add_products(c, k + c); });
  unrolled<kChains>([&](auto c) {
    if (k + c < columns) add_products(c, k + c);
  });
  unrolled<kRows>([&](auto r) {
    store_outputs(args, m + r, block, add(add(acc[r][0], acc[r][1]), add(acc[r][2], acc[r][3])));
  });
}

}  // namespace

void float_linear(const FloatLinearArgs& args) {
  const size_t block_bytes = args.weight.layout().bytes;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const float* values = reinterpret_cast<const float*>(args.weight.data + block * block_bytes);
    size_t m = 0;
    for (; m + kFloatRows <= args.rows; m += kFloatRows)
      multiply<kFloatRows>(args, m, block, values);
    for (; m < args.rows; ++m) multiply<1>(args, m, block, values);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
