#pragma once

/// \file
/// The final float operations of every linear kernel, in the order that kernels.h defines.

#include THIMBLE_VARIANT_HEADER
#include "kernels/kernels.h"
#include "kernels/shared/activations.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Out of line, as most linears have none.
[[gnu::noinline]] inline F32x16 activated(Function activation, F32x16 y) {
  with_activation(activation, [&](auto function) { y = function(y); });
  return y;
}

/// store_outputs() for the last block of a weight, of fewer than 16 rows.
[[gnu::noinline]] inline void store_some_outputs(const LinearArgs& args, float* to, size_t n,
                                                 F32x16 y) {
  const size_t count = args.weight.rows - n;
  if (args.bias != nullptr) y = add(y, load_some(args.bias + n, count));
  if (args.activation != Function::kAdd) y = activated(args.activation, y);
  if (args.accumulate) y = add(y, load_some(to, count));
  store_some(to, y, count);
}

/// Adds bias and the old values and activates, where requested, and stores the outputs of a block
/// for row `m`.
inline void store_outputs(const LinearArgs& args, size_t m, size_t block, F32x16 y) {
  const size_t n = block * kBlockRows;
  float* to = args.y + m * args.y_stride + n;
  if (n + kBlockRows > args.weight.rows) return store_some_outputs(args, to, n, y);
  if (args.bias != nullptr) y = add(y, load(args.bias + n));
  if (args.activation != Function::kAdd) y = activated(args.activation, y);
  if (args.accumulate) y = add(y, load(to));
  store(to, y);
}

/// float(a - zero_point * row_sum) * (scale * row_scale), of the formats whose rows have one.
inline F32x16 scaled(I32x16 a, const RowParams& params, const uint8_t* block) {
  const F32x16 row_scale = load(reinterpret_cast<const float*>(block));
  const I32x16 row_sum = load(reinterpret_cast<const int32_t*>(block + kLineBytes));
  const I32x16 centred = sub(a, mul(broadcast(params.zero_point), row_sum));
  return mul(to_float(centred), mul(broadcast(params.scale), row_scale));
}

/// The columns that a call computes.
inline ColumnRange columns_of(const LinearArgs& args) {
  return args.sums != nullptr ? args.columns : ColumnRange{0, args.weight.columns};
}

/// Stores the integers of row m if the call computes some of the columns, else makes outputs of
/// them.
inline void store_totals(const LinearArgs& args, size_t m, size_t block, I32x16 a,
                         const uint8_t* packed) {
  if (args.sums != nullptr) {
    store(args.sums + (m * args.weight.blocks() + block) * kBlockRows, a);
  } else {
    store_outputs(args, m, block, scaled(a, args.x.params[m], packed));
  }
}

/// Of kInt4 and kInt8Groups, whose sums are the outputs.
inline void store_totals(const LinearArgs& args, size_t m, size_t block, F32x16 sum,
                         const uint8_t*) {
  store_outputs(args, m, block, sum);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
