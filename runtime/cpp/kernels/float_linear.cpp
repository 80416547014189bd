#include THIMBLE_VARIANT_HEADER
#include "kernels/epilogue.h"
#include "kernels/functions.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

constexpr size_t kChains = 4;

F32x16 dot_block(const float* x, const float* values, size_t columns) {
  F32x16 c0 = broadcast(0.0f), c1 = c0, c2 = c0, c3 = c0;
  size_t k = 0;
  for (; k + kChains <= columns; k += kChains) {
    const float* line = values + k * kBlockRows;
    c0 = fused(broadcast(x[k]), load(line), c0);
    c1 = fused(broadcast(x[k + 1]), load(line + kBlockRows), c1);
    c2 = fused(broadcast(x[k + 2]), load(line + 2 * kBlockRows), c2);
    c3 = fused(broadcast(x[k + 3]), load(line + 3 * kBlockRows), c3);
  }
  if (k < columns) c0 = fused(broadcast(x[k]), load(values + k * kBlockRows), c0);
  if (k + 1 < columns) c1 = fused(broadcast(x[k + 1]), load(values + (k + 1) * kBlockRows), c1);
  if (k + 2 < columns) c2 = fused(broadcast(x[k + 2]), load(values + (k + 2) * kBlockRows), c2);
  return add(add(c0, c1), add(c2, c3));
}

}  // namespace

void float_linear(const FloatLinearArgs& args) {
  const size_t block_bytes = args.weight.layout().bytes;
  for (size_t block = args.first_block; block < args.last_block; ++block) {
    const float* values = reinterpret_cast<const float*>(args.weight.data + block * block_bytes);
    for (size_t m = 0; m < args.rows; ++m)
      store_outputs(args, m, block,
                    dot_block(args.x + m * args.x_stride, values, args.weight.columns));
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
