// Norms of rows: every variant's bits, and the definitions.

#include <cmath>
#include <limits>

#include "tests/kernels/each_variant.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::expect;
using thimble::test::kEpsilon;
using thimble::test::kSizes;
using thimble::test::reals;
using thimble::test::same_for_all;

bool rms_norm() {
  for (size_t n : kSizes) {
    const std::vector<float> x = reals(n, 1, 4.0f), weight = reals(n, 2, 2.0f);
    std::vector<float> y;
    const auto run = [&](const Variant& variant) {
      std::vector<float> out(n);
      variant.rms_norm(x.data(), weight.data(), 1e-5f, n, out.data());
      return out;
    };
    if (!same_for_all(run, &y)) return false;
    double squares = 0;
    for (float value : x) squares += static_cast<double>(value) * value;
    for (size_t i = 0; i < n; ++i) {
      const double expected = x[i] / std::sqrt(squares / n + 1e-5f) * weight[i];
      // The sum's n / 16 + 4 roundings count half after the root, and six more follow.
      if (std::fabs(y[i] - expected) > (n / 32.0 + 8) * kEpsilon * std::fabs(expected))
        return expect(false, "the norm's definition");
    }
  }
  return true;
}

/// Without a weight: as with one of ones.
bool plain_norm() {
  for (size_t n : kSizes) {
    const std::vector<float> x = reals(n, 1, 4.0f), ones(n, 1.0f);
    std::vector<float> plain, weighted;
    const auto run = [&](const Variant& variant, const float* weight) {
      std::vector<float> out(n);
      variant.rms_norm(x.data(), weight, 1e-5f, n, out.data());
      return out;
    };
    if (!same_for_all([&](const Variant& v) { return run(v, nullptr); }, &plain) ||
        !same_for_all([&](const Variant& v) { return run(v, ones.data()); }, &weighted) ||
        !expect(plain == weighted, "the norm with a weight of ones"))
      return false;
  }
  return true;
}

/// With a weight and a bias, or less; around 0, far from it, and with rows of one number.
bool layer_norm() {
  struct Around {
    float middle, spread;
  };
  for (size_t n : kSizes)
    for (const Around around : {Around{0.0f, 4.0f}, {100.0f, 0.1f}, {-3000.0f, 1.0f}})
      for (const int given : {0, 1, 2, 3}) {
        std::vector<float> x = reals(n, 1, around.spread), y;
        for (float& value : x) value += around.middle;
        const std::vector<float> weight = reals(n, 2, 2.0f), bias = reals(n, 3, 2.0f);
        const auto run = [&](const Variant& variant) {
          std::vector<float> out = x;
          variant.layer_norm({out.data(), given & 1 ? weight.data() : nullptr,
                              given & 2 ? bias.data() : nullptr, 1e-5f, n, out.data()});
          return out;
        };
        if (!same_for_all(run, &y)) return false;
        double mean = 0, squares = 0;
        for (float value : x) mean += static_cast<double>(value) / n;
        for (float value : x) squares += (value - mean) * (value - mean);
        const double scale = 1 / std::sqrt(squares / n + 1e-5f);
        for (size_t i = 0; i < n; ++i) {
          const double w = given & 1 ? weight[i] : 1, b = given & 2 ? bias[i] : 0;
          const double expected = (x[i] - mean) * scale * w + b;
          // Roundings of the sums, of the root and of the products; those of x - mean are its own
          // size once the mean is taken in two parts.
          const double tolerance =
              (n / 16.0 + 16) * kEpsilon * std::fabs(w) * (std::fabs(x[i] - mean) * scale + 1) +
              kEpsilon * std::fabs(expected);
          if (std::fabs(y[i] - expected) > tolerance) {
            std::fprintf(stderr, "%zu numbers around %g: %g, not %g\n", n, around.middle, y[i],
                         expected);
            return expect(false, "the layer norm's definition");
          }
        }
      }
  return true;
}

/// A NaN spoils its row, as an infinity does: neither is hidden.
bool layer_norm_of_no_numbers() {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), INFINITY}) {
    std::vector<float> x = reals(20, 1, 4.0f);
    x[18] = odd;
    for (const Variant* variant : all_variants()) {
      if ((variant->required & ~cpu_features()) != 0) continue;
      std::vector<float> y = x;
      variant->layer_norm({y.data(), nullptr, nullptr, 1e-5f, y.size(), y.data()});
      for (const float value : y)
        if (!expect(std::isnan(value), "a row of NaN")) return false;
    }
  }
  return true;
}

/// What a norm of several rows is made of.
bool moments_and_center() {
  for (size_t n : kSizes) {
    const std::vector<float> x = reals(n, 1, 4.0f), weight = reals(n, 2, 2.0f);
    std::vector<float> got;
    const auto run = [&](const Variant& variant) {
      std::vector<float> out = x;
      float sums[2];
      variant.moments(x.data(), n, 1.5f, sums);
      variant.center({x.data(), weight.data(), nullptr, 1.5f, 0.25f, 2.0f, n, out.data()});
      out.insert(out.end(), sums, sums + 2);
      return out;
    };
    if (!same_for_all(run, &got)) return false;
    double sum = 0, squares = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      const double away = x[i] - 1.5;
      sum += away;
      squares += away * away;
      size += std::fabs(away);
      const double expected = (away - 0.25) * 2 * weight[i];
      if (std::fabs(got[i] - expected) > 4 * kEpsilon * (std::fabs(expected) + 16))
        return expect(false, "the centered numbers");
    }
    const double tolerance = (n / 16.0 + 8) * kEpsilon;
    if (!expect(std::fabs(got[n] - sum) <= tolerance * size, "the sum") ||
        !expect(std::fabs(got[n + 1] - squares) <= tolerance * squares, "the sum of squares"))
      return false;
  }
  return true;
}

constexpr Case kCases[] = {{"rms_norm", rms_norm},
                           {"plain_norm", plain_norm},
                           {"layer_norm", layer_norm},
                           {"layer_norm_of_no_numbers", layer_norm_of_no_numbers},
                           {"moments_and_center", moments_and_center}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
