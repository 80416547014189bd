#pragma once

#include <immintrin.h>

#include "kernels/shared/epilogue.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// A block of outputs: what makes them of integer sums, as scaled() and store_outputs() do.
class BlockOutputs {
 public:
  BlockOutputs(const LinearArgs& args, size_t block)
      : args_(args),
        packed_(args.weight.data + block * args.weight.layout().bytes),
        bias_(args.bias != nullptr ? args.bias + block * kBlockRows : nullptr),
        y_(args.y + block * kBlockRows),
        mask_(block + 1 < args.weight.blocks()
                  ? 0xFFFF
                  : static_cast<__mmask16>(
                        0xFFFF >> (args.weight.blocks() * kBlockRows - args.weight.rows))) {}

  void prefetch(size_t m) const { __builtin_prefetch(y_ + m * args_.y_stride, 1); }

  /// Stores those of row `m`. It first subtracts `surplus`, the offset added to the weights, times
  /// the sum of the row's activations.
  template <typename Activation>
  [[gnu::always_inline]] void store(size_t m, I32x16 sums, int32_t surplus,
                                    Activation activation) const {
    const RowParams& params = args_.x.params[m];
    F32x16 y = scaled(sub(sums, broadcast(surplus * params.sum)), params, packed_);
    if (bias_ != nullptr) y = add(y, _mm512_maskz_loadu_ps(mask_, bias_));
    y = activation(y);
    float* const to = y_ + m * args_.y_stride;
    if (args_.accumulate) y = add(y, _mm512_maskz_loadu_ps(mask_, to));
    _mm512_mask_storeu_ps(to, mask_, y);
  }

 private:
  const LinearArgs& args_;
  const uint8_t* const packed_;
  const float* const bias_;
  float* const y_;
  const __mmask16 mask_;
};

}  // namespace thimble::kernels::THIMBLE_VARIANT
