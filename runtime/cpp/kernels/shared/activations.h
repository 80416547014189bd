#pragma once

/// \file
/// The activations of kernels.h on 16 numbers.

#include THIMBLE_VARIANT_HEADER
#include "kernels/kernels.h"
#include "kernels/shared/exponential.h"

namespace thimble::kernels::THIMBLE_VARIANT {

inline F32x16 negative(F32x16 x) { return sub(broadcast(0.0f), x); }

/// x / (1 + exp(-exponent)).
inline F32x16 logistic(F32x16 x, F32x16 exponent) {
  return div(x, add(broadcast(1.0f), exponential(negative(exponent))));
}

inline F32x16 silu(F32x16 x) { return logistic(x, x); }

inline F32x16 sigmoid(F32x16 x) {
  // exponential() loses a NaN; the summand restores it, and is 0 for any other x.
  const F32x16 bounded = min(broadcast(88.0f), max(broadcast(-88.0f), x));
  return add(logistic(broadcast(1.0f), x), sub(bounded, bounded));
}

/// From 9.1 on, the nearest float is 1.
inline F32x16 tanh(F32x16 x) {
  const F32x16 bounded = min(broadcast(10.0f), max(broadcast(-10.0f), x));
  const F32x16 grown = exponential_minus_one(add(bounded, bounded));
  return div(grown, add(grown, broadcast(2.0f)));
}

inline F32x16 gelu_tanh(F32x16 x) {
  const F32x16 cubic = fused(mul(x, x), broadcast(0.044715f), broadcast(1.0f));
  return logistic(x, mul(mul(x, broadcast(0x1.988454p+0f)), cubic));  // 2 * sqrt(2 / pi)
}

/// (1 - erf(x / sqrt(2))) / 2, of x >= 0: Chebyshev's fit of Numerical Recipes (Press et al., 1992,
/// section 6.2), with a relative error of 1.2e-7.
inline F32x16 upper_tail(F32x16 x) {
  constexpr float kFit[] = {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
                            -0.18628806f, 0.09678418f, 0.37409196f,  1.00002368f};
  const F32x16 t =
      div(broadcast(1.0f), fused(x, broadcast(0x1.6a09e6p-2f), broadcast(1.0f)));  // sqrt(2) / 4
  F32x16 p = broadcast(0.17087277f);
  for (float coefficient : kFit) p = fused(p, t, broadcast(coefficient));
  p = fused(p, t, broadcast(-1.26551223f));
  const F32x16 half = mul(x, broadcast(-0.5f));
  return mul(mul(t, broadcast(0.5f)), exponential_below_zero(fused(half, x, p)));
}

inline F32x16 gelu(F32x16 x) {
  const F32x16 zero = broadcast(0.0f);
  const F32x16 size = min(broadcast(64.0f), max(negative(x), x));  // beyond, the tail rounds to 0
  return sub(max(zero, x), mul(size, upper_tail(size)));
}

inline F32x16 quick_gelu(F32x16 x) { return logistic(x, mul(x, broadcast(1.702f))); }

inline F32x16 relu(F32x16 x) { return max(broadcast(0.0f), x); }

inline F32x16 relu6(F32x16 x) { return min(broadcast(6.0f), relu(x)); }

inline F32x16 hard_sigmoid(F32x16 x) {
  return mul(relu6(add(x, broadcast(3.0f))), broadcast(1.0f / 6));
}

inline F32x16 hard_swish(F32x16 x) { return mul(x, hard_sigmoid(x)); }

/// Calls `run` with the activation, which the caller has checked.
template <typename Run>
void with_activation(Function function, Run run) {
  switch (function) {
    case Function::kGelu:
      return run([](F32x16 x) { return gelu(x); });
    case Function::kGeluTanh:
      return run([](F32x16 x) { return gelu_tanh(x); });
    case Function::kSigmoid:
      return run([](F32x16 x) { return sigmoid(x); });
    case Function::kTanh:
      return run([](F32x16 x) { return tanh(x); });
    case Function::kRelu:
      return run([](F32x16 x) { return relu(x); });
    case Function::kQuickGelu:
      return run([](F32x16 x) { return quick_gelu(x); });
    case Function::kRelu6:
      return run([](F32x16 x) { return relu6(x); });
    case Function::kHardSigmoid:
      return run([](F32x16 x) { return hard_sigmoid(x); });
    case Function::kHardSwish:
      return run([](F32x16 x) { return hard_swish(x); });
    default:
      return run([](F32x16 x) { return silu(x); });
  }
}

struct Unchanged {
  F32x16 operator()(F32x16 x) const { return x; }
};

/// The same; without an activation with Unchanged.
template <typename Run>
void with_activation_if_any(Function function, Run run) {
  if (!is_activation(function)) return run(Unchanged());
  with_activation(function, run);
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
