#pragma once

#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"

/// \file
/// Kernels of rows of floats: random rows, and the same bits of every variant.

namespace thimble::test {

inline constexpr double kEpsilon = 0x1p-24;  // the rounding error of float32
inline constexpr size_t kSizes[] = {1, 15, 16, 17, 64, 100, 576};

inline std::vector<float> reals(size_t count, uint32_t seed, float size) {
  Numbers numbers(seed);
  std::vector<float> result(count);
  for (float& value : result) value = size * numbers.real();
  return result;
}

/// Whether run(variant), a vector of floats, has the same bits for every variant; `result` is
/// scalar's.
template <typename Run>
bool same_for_all(Run run, std::vector<float>* result) {
  *result = run(kernels::scalar::kVariant);
  for (const kernels::Variant* variant : kernels::all_variants()) {
    if ((variant->required & ~kernels::cpu_features()) != 0) continue;
    const std::vector<float> other = run(*variant);
    if (std::memcmp(other.data(), result->data(), other.size() * sizeof(float)) != 0) {
      std::fprintf(stderr, "%s, %zu numbers\n", variant->name, other.size());
      return expect(false, "the same bits as scalar");
    }
  }
  return true;
}

}  // namespace thimble::test
