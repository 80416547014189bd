#pragma once

#include <cstddef>
#include <cstring>

#include THIMBLE_VARIANT_HEADER

namespace thimble::kernels::THIMBLE_VARIANT {

constexpr size_t kLanes = 16;

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
