#pragma once

#include <cstddef>
#include <cstring>

#include THIMBLE_VARIANT_HEADER

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr size_t kLanes = 16;

/// The sum of the lanes: i + (i + 8), then + 4, + 2, + 1 apart.
inline float lane_sum(F32x16 a) {
  float lanes[16];
  store(lanes, a);
  for (int apart = 8; apart > 0; apart /= 2)
    for (int i = 0; i < apart; ++i) lanes[i] += lanes[i + apart];
  return lanes[0];
}

/// The largest lane, from the first on; a NaN counts only as the first.
inline float lane_max(F32x16 a) {
  float lanes[16];
  store(lanes, a);
  float largest = lanes[0];
  for (int i = 1; i < 16; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
  return largest;
}

/// Fewer than 16 floats, followed by zeros.
inline F32x16 load_some(const float* from, size_t count) {
  float lanes[kLanes] = {};
  std::memcpy(lanes, from, count * sizeof(float));
  return load(lanes);
}
inline void store_some(float* to, F32x16 a, size_t count) {
  float lanes[kLanes];
  store(lanes, a);
  std::memcpy(to, lanes, count * sizeof(float));
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
