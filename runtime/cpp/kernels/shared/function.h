#pragma once

#include <cstdint>

namespace thimble::kernels {

/// The functions of elementwise(): the schema's Function. tanh, and functions that use it, are
/// computed with exp(2 x) - 1; gelu_tanh as x / (1 + exp(-2 u)), which is the same; gelu as max(x,
/// 0) - |x| * (1 - erf(|x| / sqrt(2))) / 2. NaN gives NaN.
enum class Function : uint8_t {
  kAdd,       ///< x + other
  kMultiply,  ///< x * other
  kScale,     ///< x * number
  kSoftCap,   ///< number * tanh(x / number)
  kSilu,      ///< x / (1 + exp(-x))
  kGelu,      ///< x * (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  ///< x * (1 + tanh(u)) / 2, u = sqrt(2 / pi) * (x + 0.044715 * x^3)
  kSigmoid,   ///< 1 / (1 + exp(-x))
  kTanh,
  kRelu,         ///< max(x, 0)
  kQuickGelu,    ///< x / (1 + exp(-1.702 * x))
  kRelu6,        ///< min(max(x, 0), 6)
  kHardSigmoid,  ///< min(max(x + 3, 0), 6) / 6
  kHardSwish,    ///< x * min(max(x + 3, 0), 6) / 6
  kLeast,        ///< max(x, number)
  kMost,         ///< min(x, number)
  kLeakyRelu,    ///< max(x, 0) + number * min(x, 0)
};
constexpr bool is_function(Function function) { return function <= Function::kLeakyRelu; }
/// Whether the function has two arguments; the others have one.
constexpr bool is_binary(Function function) { return function <= Function::kMultiply; }
constexpr bool is_activation(Function function) {
  return function >= Function::kSilu && function <= Function::kHardSwish;
}

}  // namespace thimble::kernels
