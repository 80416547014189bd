#include <cmath>

#include THIMBLE_VARIANT_HEADER
#include "kernels/shared/activations.h"
#include "kernels/shared/functions.h"
#include "kernels/shared/lanes.h"

namespace thimble::kernels::THIMBLE_VARIANT {
namespace {

/// y[i] = operation(a[i], b[i]) for i < n, or that added to y[i]; y may be a or b.
template <typename Operation>
void each_pair(const float* a, const float* b, size_t n, float* y, Operation operation,
               bool accumulate = false) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 result = operation(load(a + i), load(b + i));
    store(y + i, accumulate ? add(load(y + i), result) : result);
  }
  if (i < n) {
    const size_t left = n - i;
    const F32x16 result = operation(load_some(a + i, left), load_some(b + i, left));
    store_some(y + i, accumulate ? add(load_some(y + i, left), result) : result, left);
  }
}

/// y[i] = operation(x[i]) for i < n; y may be x.
template <typename Operation>
void each_one(const float* x, size_t n, float* y, Operation operation) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(y + i, operation(load(x + i)));
  if (i < n) store_some(y + i, operation(load_some(x + i, n - i)), n - i);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, size_t n, float* y) {
  F32x16 squares = broadcast(0.0f);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32x16 value = load(x + i);
    squares = fused(value, value, squares);
  }
  if (i < n) {
    const F32x16 value = load_some(x + i, n - i);
    squares = fused(value, value, squares);
  }
  const float mean = lane_sum(squares) / static_cast<float>(n);
  const F32x16 scale = broadcast(1.0f / std::sqrt(mean + eps));
  if (weight == nullptr) return each_one(x, n, y, [&](F32x16 value) { return mul(value, scale); });
  each_pair(x, weight, n, y,
            [&](F32x16 value, F32x16 factor) { return mul(mul(value, scale), factor); });
}

void rope(float* heads, size_t count, size_t head_dim, const float* cosines, const float* sines) {
  const size_t half = head_dim / 2;
  for (; count > 0; --count, heads += head_dim) {
    float *first = heads, *second = heads + half;
    size_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const F32x16 a = load(first + i), b = load(second + i);
      const F32x16 cosine = load(cosines + i), sine = load(sines + i);
      store(first + i, sub(mul(a, cosine), mul(b, sine)));
      store(second + i, add(mul(b, cosine), mul(a, sine)));
    }
    for (; i < half; ++i) {
      const float a = first[i], b = second[i];
      first[i] = a * cosines[i] - b * sines[i];
      second[i] = b * cosines[i] + a * sines[i];
    }
  }
}

void elementwise(const ElementwiseArgs& args) {
  const F32x16 number = broadcast(args.number);
  switch (args.function) {
    case Function::kAdd:
      return each_pair(args.x, args.other, args.n, args.y,
                       [](F32x16 a, F32x16 b) { return add(a, b); });
    case Function::kMultiply:
      return each_pair(args.x, args.other, args.n, args.y,
                       [](F32x16 a, F32x16 b) { return mul(a, b); });
    case Function::kScale:
      return each_one(args.x, args.n, args.y, [&](F32x16 x) { return mul(x, number); });
    case Function::kSoftCap:
      return each_one(args.x, args.n, args.y,
                      [&](F32x16 x) { return mul(number, tanh(div(x, number))); });
    case Function::kLeast:
      return each_one(args.x, args.n, args.y, [&](F32x16 x) { return max(number, x); });
    case Function::kMost:
      return each_one(args.x, args.n, args.y, [&](F32x16 x) { return min(number, x); });
    case Function::kLeakyRelu:
      return each_one(args.x, args.n, args.y, [&](F32x16 x) {
        const F32x16 zero = broadcast(0.0f);
        return fused(min(zero, x), number, max(zero, x));
      });
    default:
      return with_activation(
          args.function, [&](auto activation) { each_one(args.x, args.n, args.y, activation); });
  }
}

void xielu(const XieluArgs& args) {
  const F32x16 zero = broadcast(0.0f), beta = broadcast(args.beta);
  const F32x16 alpha_p = broadcast(args.alpha_p), alpha_n = broadcast(args.alpha_n);
  each_one(args.x, args.n, args.y, [&](F32x16 x) {
    const F32x16 positive = max(zero, x), negative = min(zero, x);  // of a NaN, itself
    const F32x16 grown = sub(exponential_minus_one(negative), negative);
    return fused(x, beta, fused(mul(positive, positive), alpha_p, mul(grown, alpha_n)));
  });
}

void activate(const ActivateArgs& args) {
  constexpr size_t kAhead = 8;  // rows of y, which may lie far apart
  with_activation(args.activation, [&](auto activation) {
    for (size_t row = 0; row < args.rows; ++row) {
      float* const y = args.y + row * args.y_stride;
      for (size_t i = 0; row + kAhead < args.rows && i < args.columns; i += kLanes)
        __builtin_prefetch(y + kAhead * args.y_stride + i, 1);
      each_one(args.x + row * args.x_stride, args.columns, y, activation);
    }
  });
}

void glu(const GluArgs& args) {
  const auto each_row = [&](auto product) {
    for (size_t row = 0; row < args.rows; ++row) {
      each_pair(args.gate + row * args.x_stride, args.up + row * args.x_stride, args.columns,
                args.y + row * args.y_stride, product, args.accumulate);
    }
  };
  const F32x16 most = broadcast(args.limit), least = broadcast(-args.limit);
  with_activation(args.activation, [&](auto activation) {
    if (args.limit > 0) {
      return each_row([&](F32x16 gate, F32x16 up) {
        const F32x16 bounded = min(most, max(least, up));  // a NaN stays one
        return mul(activation(min(most, gate)), add(bounded, broadcast(1.0f)));
      });
    }
    each_row([&](F32x16 gate, F32x16 up) { return mul(activation(gate), up); });
  });
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
