#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

F32x16 load_up_to(const float* from, size_t count) {
  return count < kLanes ? load_some(from, count) : load(from);
}

void store_up_to(float* to, F32x16 a, size_t count) {
  if (count < kLanes) return store_some(to, a, count);
  store(to, a);
}

}  // namespace

void convolve(const ConvolutionArgs& args) {
  const float* taken[kMostTaps];  // what each tap reads
  for (size_t row = 0; row < args.rows; ++row) {
    const size_t position = args.position + row, at = row * args.x_stride;
    const auto history = [&](size_t of) {
      return args.history + of % args.history_rows * args.width;
    };
    float* product = history(position);
    const size_t last = args.taps - 1;
    const size_t first = position < last ? last - position : 0;
    for (size_t tap = first; tap <= last; ++tap) taken[tap] = history(position - (last - tap));
    for (size_t i = 0; i < args.columns; i += kLanes) {
      const size_t count = args.columns - i;
      const F32x16 x = load_up_to(args.x + at + i, count);
      const bool opens = args.opening != nullptr;
      store_up_to(product + i, opens ? mul(load_up_to(args.opening + at + i, count), x) : x, count);
      if (args.y == nullptr) continue;
      F32x16 sum = args.bias == nullptr ? broadcast(0.0f) : load_up_to(args.bias + i, count);
      for (size_t tap = first; tap <= last; ++tap) {
        const F32x16 weight = load_up_to(args.weight + tap * args.width + i, count);
        sum = fused(weight, load_up_to(taken[tap] + i, count), sum);
      }
      const bool gates = args.gate != nullptr;
      const F32x16 y = gates ? mul(load_up_to(args.gate + at + i, count), sum) : silu(sum);
      store_up_to(args.y + row * args.y_stride + i, y, count);
    }
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
