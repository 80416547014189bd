// Hadamard transforms of blocks: every variant's bits, and the definition.

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

std::vector<float> transformed(const Variant& variant, std::vector<float> x, size_t block) {
  variant.hadamard(x.data(), x.size(), block, x.data());
  return x;
}

bool blocks() {
  for (size_t block : {16, 32, 64}) {
    Numbers numbers(9);
    std::vector<float> x(9 * block);
    for (float& value : x) value = 4 * numbers.real();
    const std::vector<float> y = transformed(scalar::kVariant, x, block);
    for (const Variant* variant : all_variants()) {
      if ((variant->required & ~cpu_features()) != 0) continue;
      const std::vector<float> other = transformed(*variant, x, block);
      if (std::memcmp(other.data(), y.data(), y.size() * sizeof(float)) != 0)
        return expect(false, variant->name);
    }
    const double root = std::sqrt(block);
    for (size_t i = 0; i < x.size(); ++i) {
      double sum = 0, size = 0;
      for (size_t j = i / block * block; j < (i / block + 1) * block; ++j) {
        const bool is_odd = __builtin_popcountll(i & j & (block - 1)) % 2 != 0;
        sum += is_odd ? -x[j] : x[j];
        size += std::fabs(x[j]);
      }
      // log2(block) additions and a product, each rounded once.
      if (std::fabs(y[i] - sum / root) > 8 * kEpsilon * size / root)
        return expect(false, "the definition of a Hadamard transform");
    }
  }
  return true;
}

/// A number alone reaches its whole block and no other, and comes back the second time.
bool one_number() {
  for (size_t block : {16, 32, 64}) {
    std::vector<float> x(3 * block);
    x[block + 5] = 1;
    const std::vector<float> y = transformed(scalar::kVariant, x, block);
    for (size_t i = 0; i < y.size(); ++i)
      if ((y[i] != 0) != (i / block == 1)) return expect(false, "a block that is reached");
    const std::vector<float> again = transformed(scalar::kVariant, y, block);
    for (size_t i = 0; i < y.size(); ++i)
      if (std::fabs(again[i] - x[i]) > 8 * kEpsilon) return expect(false, "its own inverse");
  }
  return true;
}

constexpr Case kCases[] = {{"blocks", blocks}, {"one_number", one_number}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
