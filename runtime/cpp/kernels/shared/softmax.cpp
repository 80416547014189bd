#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/exponential.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {

void softmax(float* x, size_t n) {
  float largest = x[0];
  for (size_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  const F32x16 most = broadcast(largest);
  F32x16 sums = broadcast(0.0f);
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = n - i < kLanes ? n - i : kLanes;
    store_some(x + i, exponential(sub(load_some(x + i, count), most)), count);
    sums = add(sums, load_some(x + i, count));
  }
  const F32x16 total = broadcast(lane_sum(sums));
  for (size_t i = 0; i < n; i += kLanes) {
    const size_t count = n - i < kLanes ? n - i : kLanes;
    store_some(x + i, div(load_some(x + i, count), total), count);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
