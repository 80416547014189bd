#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/shared/cache.h"
#include "kernels/shared/half.h"

namespace thimble::test {

/// What the cache makes of one head's numbers, and attention of a query of a cache of integers.
inline std::vector<float> stored(const float* x, size_t count, kernels::CacheType type) {
  using kernels::CacheType;
  std::vector<float> result(x, x + count);
  float largest = 0;
  for (float value : result) largest = std::fmax(largest, std::fabs(value));
  const float scale = largest / (type == CacheType::kInt4 ? 15 : 127);
  for (float& value : result) {
    if (type == CacheType::kFloat16) value = kernels::half_to_float(kernels::float_to_half(value));
    if (type == CacheType::kInt8)
      value = scale < FLT_MIN ? 0 : std::nearbyint(value * (1 / scale)) * scale;
    const float n = std::nearbyint(std::fma(value, 7.5f / largest, 7.5f));
    if (type == CacheType::kInt4) value = scale < FLT_MIN ? 0 : (2 * n - 15) * scale;
  }
  return result;
}

}  // namespace thimble::test
