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

void moments(const float* x, size_t n, float shift, float sums[2]) {
  const F32x16 from = broadcast(shift);
  F32x16 total = broadcast(0.0f), squares = total;
  const auto include = [&](F32x16 value) {
    total = add(total, value);
    squares = fused(value, value, squares);
  };
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) include(sub(load(x + i), from));
  if (i < n) {  // lanes behind the last count nothing
    float lanes[kLanes];
    store(lanes, sub(load_some(x + i, n - i), from));
    include(load_some(lanes, n - i));
  }
  sums[0] = lane_sum(total);
  sums[1] = lane_sum(squares);
}

void center(const CenterArgs& args) {
  const F32x16 mean = broadcast(args.mean), rest = broadcast(args.rest);
  const F32x16 scale = broadcast(args.scale), one = broadcast(1.0f), zero = broadcast(0.0f);
  const auto normed = [&](F32x16 x, F32x16 weight, F32x16 bias) {
    return fused(mul(sub(sub(x, mean), rest), scale), weight, bias);
  };
  size_t i = 0;
  for (; i + kLanes <= args.n; i += kLanes) {
    store(args.y + i, normed(load(args.x + i), args.weight ? load(args.weight + i) : one,
                             args.bias ? load(args.bias + i) : zero));
  }
  if (i < args.n) {
    const size_t left = args.n - i;
    store_some(
        args.y + i,
        normed(load_some(args.x + i, left), args.weight ? load_some(args.weight + i, left) : one,
               args.bias ? load_some(args.bias + i, left) : zero),
        left);
  }
}

void layer_norm(const LayerNormArgs& args) {
  const size_t n = args.n;
  const F32x16 zero = broadcast(0.0f);
  const auto sum = [](F32x16 value, F32x16 total) { return add(total, value); };
  const auto squares = [](F32x16 value, F32x16 total) { return fused(value, value, total); };
  const float mean = mean_of(args.x, n, zero, zero, sum);
  const float rest = mean_of(args.x, n, broadcast(mean), zero, sum);
  const float variance = mean_of(args.x, n, broadcast(mean), broadcast(rest), squares);
  const float scale = 1.0f / std::sqrt(variance + args.eps);
  center({args.x, args.weight, args.bias, mean, rest, scale, n, args.y});
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
