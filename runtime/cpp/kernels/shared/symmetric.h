#pragma once

/// \file
/// Numbers as int8 with one scale, symmetric.

#include <cfloat>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Calls `put(first number, how many, 16 floats)` for all of `count` numbers.
template <typename Put>
inline void each_vector(const float* x, size_t count, Put put) {
  for (size_t i = 0; i < count; i += kLanes) {
    const size_t left = count - i;
    put(i, left < kLanes ? left : kLanes, left < kLanes ? load_some(x + i, left) : load(x + i));
  }
}

/// The largest magnitude of numbers; a NaN is ignored.
inline float largest_magnitude(const float* x, size_t count) {
  F32x16 largest = broadcast(0.0f);
  each_vector(x, count, [&](size_t, size_t, F32x16 a) {
    largest = max(max(a, sub(broadcast(0.0f), a)), largest);
  });
  return lane_max(largest);
}

/// Quantizes numbers: scale = (largest magnitude) / 127, q = round(clamp(x * (1 / scale), -127,
/// 127)), all zero where the scale is below the smallest normal. A NaN is ignored in the scale and
/// becomes -127. Calls `put(first number, how many, 16 int8)`; returns the scale.
template <typename Put>
inline float quantize_symmetric(const float* x, size_t count, Put put) {
  const float scale = largest_magnitude(x, count) / 127.0f;
  const bool is_normal = scale >= FLT_MIN;
  const F32x16 inverse = broadcast(is_normal ? 1.0f / scale : 0.0f);
  each_vector(x, count, [&](size_t i, size_t used, F32x16 a) {
    const F32x16 steps = max(mul(a, inverse), broadcast(-127.0f));
    int8_t lanes[kLanes];
    store_bytes(lanes, round_to_int(min(steps, broadcast(127.0f))));
    put(i, used, lanes);
  });
  return is_normal ? scale : 0.0f;
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
