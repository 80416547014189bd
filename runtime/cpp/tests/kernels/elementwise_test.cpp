// Rotation, functions of numbers, gated units, embedding rows: every variant's bits, and the
// definitions.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "kernels/shared/embedding.h"
#include "kernels/shared/half.h"
#include "tests/cases.h"
#include "tests/kernels/each_variant.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::AlignedBuffer;
using thimble::test::Case;
using thimble::test::expect;
using thimble::test::kEpsilon;
using thimble::test::kSizes;
using thimble::test::Numbers;
using thimble::test::reals;
using thimble::test::same_for_all;

bool rope() {
  for (size_t head_dim : {2, 8, 32, 64, 80}) {
    constexpr size_t kHeads = 3;
    const std::vector<float> x = reals(kHeads * head_dim, 3, 2.0f);
    std::vector<float> cosines, sines, y;
    for (size_t i = 0; i < head_dim / 2; ++i) {
      cosines.push_back(std::cos(0.7f * static_cast<float>(i + 1)));
      sines.push_back(std::sin(0.7f * static_cast<float>(i + 1)));
    }
    const auto run = [&](const Variant& variant) {
      std::vector<float> heads = x;
      variant.rope(heads.data(), kHeads, head_dim, cosines.data(), sines.data());
      return heads;
    };
    if (!same_for_all(run, &y)) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t d = i % head_dim, pair = d % (head_dim / 2);
      const bool is_first = d < head_dim / 2;
      const double other = is_first ? -x[i + head_dim / 2] : x[i - head_dim / 2];
      const double expected = static_cast<double>(x[i]) * cosines[pair] + other * sines[pair];
      if (std::fabs(y[i] - expected) > 3 * kEpsilon * (std::fabs(x[i]) + std::fabs(other)))
        return expect(false, "the rotation's definition");
    }
  }
  return true;
}

constexpr Function kActivations[] = {Function::kSilu,      Function::kGelu,  Function::kGeluTanh,
                                     Function::kSigmoid,   Function::kTanh,  Function::kRelu,
                                     Function::kQuickGelu, Function::kRelu6, Function::kHardSigmoid,
                                     Function::kHardSwish};

/// A number, and how far from it a kernel's may be.
struct Bounded {
  double value;
  double tolerance;
};

/// An activation's definition in double. Tolerances count roundings: 4 of exp, 5 of exp(x) - 1, one
/// of each sum, product and quotient; what exp is given is off by so many of its own size. Both
/// bring what they are given to where float32 can say the result.
Bounded activation(Function function, double x) {
  const double smallest = std::fabs(x) * 0x1p-120;
  switch (function) {
    case Function::kSilu: {
      const double y = x / (1 + std::exp(-x));
      return {y, 6 * kEpsilon * std::fabs(y) + smallest};
    }
    case Function::kGelu: {
      // The tail: 2 of the fit, 8 of its polynomial's sums, exp's, 6 more; and those of what exp is
      // given, x^2 / 2 + 1.3 at most.
      const double y = x * std::erfc(-x / std::sqrt(2.0)) / 2;
      const double tail = std::fabs(x) * std::erfc(std::fabs(x) / std::sqrt(2.0)) / 2;
      const double roundings = 22 + x * x / 2;
      return {y, kEpsilon * (roundings * tail + std::fabs(y)) + smallest};
    }
    case Function::kGeluTanh: {
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      const double y = x / (1 + std::exp(-2 * u));
      return {y, kEpsilon * (7 + 5 * std::fabs(2 * u) / (1 + std::exp(2 * u))) * std::fabs(y) +
                     smallest};
    }
    case Function::kQuickGelu: {
      const double u = 1.702f * x, y = x / (1 + std::exp(-u));
      return {y, kEpsilon * (7 + 2 * std::fabs(u) / (1 + std::exp(u))) * std::fabs(y) + smallest};
    }
    case Function::kRelu6:
      return {std::fmin(std::fmax(x, 0), 6), 0};
    case Function::kHardSigmoid:
    case Function::kHardSwish: {
      const double y = std::fmin(std::fmax(x + 3, 0), 6) / 6;
      const double factor = function == Function::kHardSwish ? x : 1;
      return {factor * y, 8 * kEpsilon * std::fabs(factor)};
    }
    case Function::kSigmoid: {
      const double y = 1 / (1 + std::exp(-x));
      return {y, 6 * kEpsilon * y + 0x1p-120};
    }
    case Function::kTanh: {
      // exp(2 x) - 1 counts once where x is large, twice where it is close to -1.
      const double y = std::tanh(x);
      return {y, 12 * kEpsilon * std::fabs(y)};
    }
    default:
      return {std::fmax(x, 0), 0};
  }
}

/// Numbers of all sizes that matter to an activation, and more than a vector of them.
std::vector<float> numbers_of_all_sizes() {
  std::vector<float> numbers = {0.0f, -0.0f};
  for (const float size : {1e-6f, 0.01f, 1.0f, 8.0f, 120.0f}) {
    const std::vector<float> some = reals(401, 9, size);
    numbers.insert(numbers.end(), some.begin(), some.end());
  }
  return numbers;
}

/// 5 roundings of exp(x) - 1, then those of the products and sums, each of what it makes.
bool xielu() {
  const std::vector<float> x = numbers_of_all_sizes();
  std::vector<float> y;
  const auto run = [&](const Variant& variant) {
    std::vector<float> out = x;
    variant.xielu({out.data(), 0.8f, 0.9f, 0.5f, out.size(), out.data()});
    return out;
  };
  if (!same_for_all(run, &y)) return false;
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = std::fmax(x[i], 0), n = std::fmin(x[i], 0);
    const double square = 0.8f * p * p, grown = 0.9f * (std::expm1(n) - n), line = 0.5f * x[i];
    const double size = square - 0.9f * (std::expm1(n) + n) + std::fabs(line);
    if (std::fabs(y[i] - (square + grown + line)) > 8 * kEpsilon * size)
      return expect(false, "xIELU's definition");
  }
  return true;
}

/// y = function(x, other) of every variant; scalar's, or nothing where they differ.
std::vector<float> apply(Function function, const std::vector<float>& x,
                         const std::vector<float>& other = {}, float number = 0) {
  std::vector<float> y;
  const auto run = [&](const Variant& variant) {
    std::vector<float> out(x.size());
    variant.elementwise({function, x.data(), other.data(), number, x.size(), out.data()});
    std::vector<float> in_place = x;
    variant.elementwise(
        {function, in_place.data(), other.data(), number, x.size(), in_place.data()});
    out.insert(out.end(), in_place.begin(), in_place.end());
    return out;
  };
  if (!same_for_all(run, &y)) return {};
  const std::vector<float> in_place(y.begin() + static_cast<std::ptrdiff_t>(x.size()), y.end());
  y.resize(x.size());
  return y == in_place ? y : std::vector<float>();
}

bool activations() {
  const std::vector<float> x = numbers_of_all_sizes();
  for (const Function function : kActivations) {
    const std::vector<float> y = apply(function, x);
    if (!expect(!y.empty(), "one answer of all variants, in place too")) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      const Bounded expected = activation(function, x[i]);
      if (std::fabs(y[i] - expected.value) <= expected.tolerance) continue;
      std::fprintf(stderr, "function %d of %g: %g, not %g, off by %g of %g\n",
                   static_cast<int>(function), x[i], y[i], expected.value,
                   std::fabs(y[i] - expected.value), expected.tolerance);
      return expect(false, "the definition of the activation");
    }
  }
  return true;
}

/// Far out an activation goes to where it must; a NaN stays one.
bool activation_ends() {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = INFINITY;
  struct End {
    Function function;
    float low, high;  ///< of -1e30 and 1e30
  };
  const End ends[] = {{Function::kSilu, 0, 1e30f},      {Function::kGelu, 0, 1e30f},
                      {Function::kGeluTanh, 0, 1e30f},  {Function::kSigmoid, 0, 1},
                      {Function::kTanh, -1, 1},         {Function::kRelu, 0, 1e30f},
                      {Function::kQuickGelu, 0, 1e30f}, {Function::kRelu6, 0, 6},
                      {Function::kHardSigmoid, 0, 1},   {Function::kHardSwish, 0, 1e30f}};
  for (const End& end : ends) {
    const std::vector<float> y = apply(end.function, {-1e30f, 1e30f, -200.0f, infinity});
    if (!expect(!y.empty() && std::fabs(y[0] - end.low) < 1e-7f && y[1] == end.high &&
                    std::fabs(y[2] - end.low) < 1e-34f && y[3] >= end.high,
                "the limits of the activation"))
      return false;
    for (const Variant* variant : all_variants()) {
      if ((variant->required & ~cpu_features()) != 0) continue;
      float y = 0;
      variant->elementwise({end.function, &nan, nullptr, 0, 1, &y});
      if (!expect(std::isnan(y), "a NaN to stay one")) return false;
    }
  }
  return true;
}

bool functions_of_two() {
  for (size_t n : kSizes) {
    const std::vector<float> x = reals(n, 6, 1.0f), other = reals(n, 7, 1.0f);
    const std::vector<float> sum = apply(Function::kAdd, x, other);
    const std::vector<float> product = apply(Function::kMultiply, x, other);
    if (!expect(sum.size() == n && product.size() == n, "one answer of all variants")) return false;
    for (size_t i = 0; i < n; ++i)
      if (sum[i] != x[i] + other[i] || product[i] != x[i] * other[i])
        return expect(false, "the sum and the product");
  }
  return true;
}

bool functions_with_a_number() {
  const std::vector<float> x = numbers_of_all_sizes();
  for (const float number : {0.3f, 30.0f}) {
    const std::vector<float> scaled = apply(Function::kScale, x, {}, number);
    const std::vector<float> capped = apply(Function::kSoftCap, x, {}, number);
    if (!expect(!scaled.empty() && !capped.empty(), "one answer of all variants")) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = number * std::tanh(static_cast<double>(x[i]) / number);
      // tanh's, one of its argument, and the product.
      if (scaled[i] != x[i] * number ||
          std::fabs(capped[i] - expected) > 14 * kEpsilon * std::fabs(expected))
        return expect(false, "the definitions of scale and soft cap");
    }
    const std::vector<float> least = apply(Function::kLeast, x, {}, number);
    const std::vector<float> most = apply(Function::kMost, x, {}, number);
    const std::vector<float> leaky = apply(Function::kLeakyRelu, x, {}, number);
    for (size_t i = 0; i < x.size(); ++i) {
      if (least[i] != std::fmax(x[i], number) || most[i] != std::fmin(x[i], number) ||
          leaky[i] != (x[i] < 0 ? number * x[i] : x[i]))
        return expect(false, "the definitions of bounds and of a leaky ReLU");
    }
  }
  return true;
}

bool gated_units(float limit) {
  constexpr size_t kRows = 3, kApart = 40;  // floats between rows of gate and up, and of y
  for (const Function function : kActivations)
    for (size_t n : kSizes) {
      for (bool accumulate : {false, true}) {
        const size_t stride = n + kApart;
        std::vector<float> gate = reals(kRows * stride, 4, 30.0f), y;
        const std::vector<float> up = reals(kRows * stride, 5, 3.0f);
        const std::vector<float> before = reals(kRows * (stride + kApart), 6, 1.0f);
        gate[0] = 0.0f;
        const auto run = [&](const Variant& variant) {
          std::vector<float> out = before;
          variant.glu({function, gate.data(), up.data(), stride, kRows, n, out.data(),
                       stride + kApart, accumulate, limit});
          return out;
        };
        if (!same_for_all(run, &y)) return false;
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t row = i / (stride + kApart), column = i % (stride + kApart);
          if (column >= n) {
            if (y[i] != before[i]) return expect(false, "what lies between rows untouched");
            continue;
          }
          float g = gate[row * stride + column], u = up[row * stride + column];
          if (limit > 0) {
            g = std::fmin(g, limit);
            u = std::fmax(-limit, std::fmin(u, limit)) + 1;
          }
          const Bounded gated = activation(function, g);
          const double product = gated.value * u;
          const double expected = product + (accumulate ? before[i] : 0.0f);
          // The activation's, a product; and the sum with what was there.
          if (std::fabs(y[i] - expected) > gated.tolerance * std::fabs(u) * (1 + kEpsilon) +
                                               kEpsilon * std::fabs(product) +
                                               (accumulate ? kEpsilon * std::fabs(expected) : 0))
            return expect(false, "the definition of a gated unit");
        }
      }
    }
  return true;
}

bool plain_gated_units() { return gated_units(0); }
bool limited_gated_units() { return gated_units(1.25f); }

/// Rows of a packed weight are what went in.
bool embedding_rows() {
  constexpr size_t kRows = 19, kColumns = 100, kGroup = 32, kGroups = 4;
  Numbers numbers(8);
  std::vector<int8_t> int8(kRows * kColumns), integers(kRows * kColumns);
  std::vector<uint8_t> multiples(kRows * kGroups);
  std::vector<uint16_t> scales(kRows * kGroups);
  std::vector<float> row_scales(kRows), values(kRows * kColumns), row(kColumns);
  for (int8_t& value : int8) value = static_cast<int8_t>(numbers.between(-128, 127));
  for (uint8_t& multiple : multiples) multiple = static_cast<uint8_t>(numbers.between(1, 4));
  for (uint16_t& scale : scales) scale = static_cast<uint16_t>(numbers.between(0x2C00, 0x2FFF));
  for (float& scale : row_scales) scale = numbers.real();
  for (float& value : values) value = numbers.real();
  for (uint8_t kind = 0; kind < kFormats; ++kind) {
    const WeightFormat format = static_cast<WeightFormat>(kind);
    for (size_t i = 0; format != WeightFormat::kFloat32 && i < int8.size(); ++i)
      integers[i] = static_cast<int8_t>(
          value_of(bits_of(format), static_cast<uint8_t>(int8[i]) >> (8 - bits_of(format))));
    const size_t group = in_groups(format) ? kGroup : 0;
    PackedWeight weight{nullptr, kRows, stored_columns(format, kColumns, group), group, format};
    AlignedBuffer packed(weight.bytes());
    uint8_t* out = packed.data();
    weight.data = out;
    const bool two_levels = has_two_levels(format);
    if (two_levels)
      pack_two_level(format, integers.data(), multiples.data(), row_scales.data(), kRows, kColumns,
                     kGroup, out);
    if (format == WeightFormat::kInt4)
      pack_int4(integers.data(), scales.data(), kRows, kColumns, kGroup, out);
    if (format == WeightFormat::kInt8)
      pack_int8(integers.data(), row_scales.data(), kRows, kColumns, out);
    if (format == WeightFormat::kInt8Groups)
      pack_int8_groups(integers.data(), scales.data(), kRows, kColumns, kGroup, out);
    if (format == WeightFormat::kFloat32) pack_float32(values.data(), kRows, kColumns, out);
    for (size_t n = 0; n < kRows; ++n) {
      unpack_row(weight, n, kColumns, row.data());
      for (size_t k = 0; k < kColumns; ++k) {
        const size_t i = n * kColumns + k, j = n * kGroups + k / kGroup;
        const float scale = two_levels          ? multiples[j] * row_scales[n]
                            : in_groups(format) ? half_to_float(scales[j])
                                                : row_scales[n];
        const bool is_float = format == WeightFormat::kFloat32;
        const float expected = is_float ? values[i] : integers[i] * scale;
        if (row[k] != expected) return expect(false, "the values that were packed");
      }
    }
  }
  return true;
}

bool half_precision() {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const bool is_nan = (half & 0x7C00) == 0x7C00 && (half & 0x3FF) != 0;
    const float value = half_to_float(static_cast<uint16_t>(half));
    const uint16_t back = float_to_half(value);
    if (back != (is_nan ? half | 0x200 : half)) return expect(false, "every half to come back");
    if (is_nan || (half & 0x7FFF) >= 0x7BFF) continue;
    // Between neighbours: nearest, ties to the even one.
    const float next = half_to_float(static_cast<uint16_t>(half + 1));
    const float middle = 0.5f * (value + next);
    if (float_to_half(middle) != ((half & 1) == 0 ? half : half + 1) ||
        float_to_half(0.75f * value + 0.25f * next) != half)
      return expect(false, "rounding to nearest, ties to even");
  }
  return expect(float_to_half(65519.0f) == 0x7BFF && float_to_half(65520.0f) == 0x7C00,
                "infinity from the middle on");
}

constexpr Case kCases[] = {{"xielu", xielu},
                           {"rope", rope},
                           {"activations", activations},
                           {"activation_ends", activation_ends},
                           {"functions_of_two", functions_of_two},
                           {"functions_with_a_number", functions_with_a_number},
                           {"gated_units", plain_gated_units},
                           {"limited_gated_units", limited_gated_units},
                           {"embedding_rows", embedding_rows},
                           {"half_precision", half_precision}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
