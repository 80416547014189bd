#pragma once

#include <immintrin.h>

#include "kernels/shared/epilogue.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Finishes a block's integer sums with `count` rows from `m` on, [count][16], `stride` apart, as
/// scaled() and store_outputs() do one row at a time. It first subtracts `surplus`, the offset
/// added to the weights, times the sum of a row's activations.
inline void store_sums(const LinearArgs& args, size_t m, size_t count, size_t block,
                       const int32_t* sums, size_t stride, int32_t surplus) {
  const RowParams* params = args.x.params + m;
  const uint8_t* packed = args.weight.data + block * args.weight.layout().bytes;
  if ((block + 1) * kBlockRows > args.weight.rows) {
    for (size_t r = 0; r < count; ++r) {
      const I32x16 sum = sub(load(sums + r * stride), broadcast(surplus * params[r].sum));
      store_outputs(args, m + r, block, scaled(sum, params[r], packed));
    }
    return;
  }
  const F32x16 row_scale = load(reinterpret_cast<const float*>(packed));
  const I32x16 row_sum = load(reinterpret_cast<const int32_t*>(packed + kLineBytes));
  const bool has_bias = args.bias != nullptr;
  const F32x16 bias = has_bias ? load(args.bias + block * kBlockRows) : broadcast(0.0f);
  float* y = args.y + m * args.y_stride + block * kBlockRows;
  for (size_t r = 0; r < count; ++r, y += args.y_stride, sums += stride) {
    const I32x16 sum = sub(load(sums), broadcast(surplus * params[r].sum));
    const I32x16 centred = sub(sum, mul(broadcast(params[r].zero_point), row_sum));
    F32x16 output = mul(to_float(centred), mul(broadcast(params[r].scale), row_scale));
    if (has_bias) output = add(output, bias);
    store(y, args.accumulate ? add(output, load(y)) : output);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
