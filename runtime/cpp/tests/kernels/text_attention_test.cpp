// Attention to whole texts: every variant's bits, the definition, and one query's like many's.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/kernels/each_variant.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::expect;
using thimble::test::kEpsilon;
using thimble::test::reals;
using thimble::test::same_for_all;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

struct Problem {
  size_t queries, keys, head_dim;
  bool biased;
  std::vector<float> q, k, v, bias;

  Problem(size_t queries_, size_t keys_, size_t dim, bool biased_)
      : queries(queries_),
        keys(keys_),
        head_dim(dim),
        biased(biased_),
        q(reals(queries * dim, 1, 3)),
        k(reals(keys * dim, 2, 3)),
        v(reals(keys * dim, 3, 1)),
        bias(reals(queries * keys, 4, 1)) {
    for (size_t i = 0; i < bias.size(); i += 3) bias[i] = kHidden;
  }

  /// The outputs of some queries; the others are zeros.
  std::vector<float> run(const Variant& variant, size_t first, size_t last) const {
    std::vector<float> out(queries * head_dim);
    std::vector<float> memory(text_attention_scratch_size(head_dim) + 16);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    float* scratch = memory.data() + (64 - address % 64) % 64 / sizeof(float);
    variant.text_attention({q.data(), head_dim, k.data(), head_dim, v.data(), head_dim, out.data(),
                            head_dim, keys, first, last, head_dim, 0.25f, 0, UINT32_MAX,
                            biased ? bias.data() : nullptr, keys, scratch});
    return out;
  }
};

bool one_is_like_many() {
  for (const size_t dim : {16, 48, 64, 80, 144}) {
    for (const size_t keys : {1, 15, 16, 63, 64, 65, 200}) {
      for (const bool biased : {false, true}) {
        const Problem problem(5, keys, dim, biased);
        std::vector<float> all, one;
        const auto run = [&](size_t first, size_t last) {
          return [&, first, last](const Variant& each) { return problem.run(each, first, last); };
        };
        if (!same_for_all(run(0, 5), &all)) return false;
        for (size_t row = 0; row < 5; ++row) {
          if (!same_for_all(run(row, row + 1), &one)) return false;
          if (std::memcmp(&one[row * dim], &all[row * dim], dim * sizeof(float)) != 0)
            return expect(false, "the bits that it has among others");
        }
      }
    }
  }
  return true;
}

bool attends() {
  const Problem problem(1, 130, 64, true);
  const std::vector<float> out = problem.run(scalar::kVariant, 0, 1);
  std::vector<double> expected(64);
  double total = 0;
  for (size_t p = 0; p < problem.keys; ++p) {
    double score = problem.bias[p];
    for (size_t d = 0; d < 64; ++d) score += 0.25 * problem.q[d] * problem.k[p * 64 + d];
    const double weight = std::exp(score);
    total += weight;
    for (size_t d = 0; d < 64; ++d) expected[d] += weight * problem.v[p * 64 + d];
  }
  for (size_t d = 0; d < 64; ++d) {
    if (std::fabs(out[d] - expected[d] / total) > 2000 * kEpsilon)
      return expect(false, "the definition of attention");
  }
  return true;
}

/// A query that sees nothing has zeros.
bool sees_nothing() {
  Problem problem(1, 70, 32, true);
  std::fill(problem.bias.begin(), problem.bias.end(), kHidden);
  const std::vector<float> out = problem.run(scalar::kVariant, 0, 1);
  return expect(std::all_of(out.begin(), out.end(), [](float x) { return x == 0; }), "zeros");
}

constexpr Case kCases[] = {
    {"one_is_like_many", one_is_like_many}, {"attends", attends}, {"sees_nothing", sees_nothing}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
