// Softmax: every variant's bits, and the definition.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::expect;
using thimble::test::Numbers;

constexpr double kEpsilon = 0x1p-24;  // the rounding error of float32
constexpr size_t kSizes[] = {1, 4, 15, 16, 17, 128, 130};

std::vector<float> reals(size_t count, float size) {
  Numbers numbers(12);
  std::vector<float> result(count);
  for (float& value : result) value = size * numbers.real();
  return result;
}

/// Of small numbers and large ones, equal ones, and those of which only the largest counts.
bool shares() {
  for (size_t n : kSizes) {
    for (const float size : {0.0f, 1.0f, 30.0f, 1000.0f}) {
      const std::vector<float> x = reals(n, size);
      std::vector<float> y = x;
      scalar::kVariant.softmax(y.data(), n);
      for (const Variant* variant : all_variants()) {
        if ((variant->required & ~cpu_features()) != 0) continue;
        std::vector<float> other = x;
        variant->softmax(other.data(), n);
        if (std::memcmp(other.data(), y.data(), n * sizeof(float)) != 0)
          return expect(false, variant->name);
      }
      const double largest = *std::max_element(x.begin(), x.end());
      double total = 0;
      for (const float value : x) total += std::exp(value - largest);
      for (size_t i = 0; i < n; ++i) {
        // What exp is given is off by one rounding of its size; exp's 4, those of the sum, 2 more.
        const double away = largest - x[i], expected = std::exp(-away) / total;
        const double roundings = away + 10 + n / 16.0;
        if (std::fabs(y[i] - expected) > roundings * kEpsilon * expected + 0x1p-120)
          return expect(false, "the definition of softmax");
      }
    }
  }
  return true;
}

constexpr Case kCases[] = {{"shares", shares}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
