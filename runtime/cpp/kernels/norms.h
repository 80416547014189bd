#pragma once

#include <cstddef>

/// \file
/// What the kernels of norms take.

namespace thimble::kernels {

/// y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * weight + bias, for n numbers; y may be x.
/// The mean is taken in two parts, the second that of x - the first: so numbers far from 0 lose
/// nothing. Sums are those of rms_norm; the last product and sum are fused.
struct LayerNormArgs {
  const float* x;
  const float* weight;  ///< [n] or null: all 1
  const float* bias;    ///< [n] or null: all 0
  float eps;
  size_t n;
  float* y;
};

/// y = (x - mean - rest) * scale * weight + bias, the last two fused, of n numbers; y may be x.
struct CenterArgs {
  const float* x;
  const float* weight;  ///< [n] or null: all 1
  const float* bias;    ///< [n] or null: all 0
  float mean, rest;     ///< of which the second is what rounding left of the first
  float scale;
  size_t n;
  float* y;
};

}  // namespace thimble::kernels
