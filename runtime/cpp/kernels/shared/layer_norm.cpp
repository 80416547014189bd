#include <cmath>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// The mean over n numbers of what `term` makes of 16; lanes behind the last count nothing.
template <typename Term>
float mean_of(const float* x, size_t n, F32x16 shift, F32x16 rest, Term term) {
  F32x16 total = broadcast(0.0f);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) total = term(sub(sub(load(x + i), shift), rest), total);
  if (i < n) {
    float lanes[kLanes];
    store(lanes, sub(sub(load_some(x + i, n - i), shift), rest));
    total = term(load_some(lanes, n - i), total);
  }
  return lane_sum(total) / static_cast<float>(n);
}

}  // namespace

void layer_norm(const LayerNormArgs& args) {
  const size_t n = args.n;
  const F32x16 zero = broadcast(0.0f);
  const auto sum = [](F32x16 value, F32x16 total) { return add(total, value); };
  const auto squares = [](F32x16 value, F32x16 total) { return fused(value, value, total); };
  const F32x16 mean = broadcast(mean_of(args.x, n, zero, zero, sum));
  const F32x16 rest = broadcast(mean_of(args.x, n, mean, zero, sum));
  const float variance = mean_of(args.x, n, mean, rest, squares);
  const F32x16 scale = broadcast(1.0f / std::sqrt(variance + args.eps));
  const F32x16 one = broadcast(1.0f);
  const auto normed = [&](F32x16 x, F32x16 weight, F32x16 bias) {
    return fused(mul(sub(sub(x, mean), rest), scale), weight, bias);
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(args.y + i, normed(load(args.x + i), args.weight ? load(args.weight + i) : one,
                             args.bias ? load(args.bias + i) : zero));
  }
  if (i < n) {
    const size_t left = n - i;
    store_some(
        args.y + i,
        normed(load_some(args.x + i, left), args.weight ? load_some(args.weight + i, left) : one,
               args.bias ? load_some(args.bias + i, left) : zero),
        left);
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
