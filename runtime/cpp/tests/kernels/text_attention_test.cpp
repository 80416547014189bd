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

enum class Scores { kFloats, kBiased, kIntegers };

struct Problem {
  size_t queries, keys, head_dim;
  Scores scores;
  std::vector<float> q, k, v, bias;
  size_t window = 0, after = UINT32_MAX;

  Problem(size_t queries_, size_t keys_, size_t dim, Scores scores_)
      : queries(queries_),
        keys(keys_),
        head_dim(dim),
        scores(scores_),
        q(reals(queries * dim, 1, 3)),
        k(reals(keys * dim, 2, 3)),
        v(reals(keys * dim, 3, 1)),
        bias(reals(queries * keys, 4, 1)) {
    for (size_t i = 0; i < bias.size(); i += 3) bias[i] = kHidden;
  }

  /// The outputs of some queries; the others are zeros.
  std::vector<float> run(const Variant& variant, size_t first, size_t last) const {
    const bool integers = scores == Scores::kIntegers;
    std::vector<float> out(queries * head_dim);
    std::vector<float> memory(text_attention_scratch_size(head_dim, integers) + 16);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    float* scratch = memory.data() + (64 - address % 64) % 64 / sizeof(float);
    variant.text_attention({q.data(), head_dim, k.data(), head_dim, v.data(), head_dim, out.data(),
                            head_dim, keys, first, last, head_dim, 0.25f, window, after,
                            scores == Scores::kBiased ? bias.data() : nullptr, keys, scratch,
                            integers});
    return out;
  }
};

bool one_is_like_many() {
  for (const size_t dim : {16, 48, 64, 80, 144}) {
    for (const size_t keys : {1, 15, 16, 63, 64, 65, 200}) {
      for (const Scores scores : {Scores::kFloats, Scores::kBiased, Scores::kIntegers}) {
        const Problem problem(5, keys, dim, scores);
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
  const Problem problem(1, 130, 64, Scores::kBiased);
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
  Problem problem(1, 70, 32, Scores::kBiased);
  std::fill(problem.bias.begin(), problem.bias.end(), kHidden);
  const std::vector<float> out = problem.run(scalar::kVariant, 0, 1);
  return expect(std::all_of(out.begin(), out.end(), [](float x) { return x == 0; }), "zeros");
}

/// In integers, also with numbers of every size, many queries, windows and columns of any count.
bool integers_are_alike() {
  for (const size_t dim : {1, 6, 16, 40, 72}) {
    for (const size_t window : {0, 3, 70}) {
      Problem problem(150, 150, dim, Scores::kIntegers);
      problem.window = window;
      if (window != 0) problem.after = window / 2;
      for (size_t i = 0; i < problem.v.size(); i += 7) problem.v[i] *= 0x1p-130f;
      for (size_t i = 0; i < dim; ++i) problem.q[i] *= 0x1p+60f, problem.k[i] = 0;
      problem.k[5 * dim] = NAN, problem.v[6 * dim] = INFINITY;
      std::vector<float> all, some;
      if (!same_for_all([&](const Variant& each) { return problem.run(each, 0, 150); }, &all))
        return false;
      if (!same_for_all([&](const Variant& each) { return problem.run(each, 96, 140); }, &some))
        return false;
      if (std::memcmp(&some[96 * dim], &all[96 * dim], 44 * dim * sizeof(float)) != 0)
        return expect(false, "the bits that they have among others");
    }
  }
  return true;
}

/// Integers lose little: less than a fiftieth of the values' size.
bool integers_attend() {
  for (const size_t window : {0, 40}) {
    Problem exact(200, 200, 64, Scores::kFloats);
    for (float& x : exact.q) x *= 0.25f;
    exact.window = window;
    if (window != 0) exact.after = 9;
    Problem rounded = exact;
    rounded.scores = Scores::kIntegers;
    const std::vector<float> expected = exact.run(scalar::kVariant, 0, 200);
    const std::vector<float> out = rounded.run(scalar::kVariant, 0, 200);
    for (size_t i = 0; i < out.size(); ++i) {
      if (!(std::fabs(out[i] - expected[i]) < 0.02)) return expect(false, "about what floats give");
    }
  }
  return true;
}

constexpr Case kCases[] = {{"one_is_like_many", one_is_like_many},
                           {"attends", attends},
                           {"sees_nothing", sees_nothing},
                           {"integers_are_alike", integers_are_alike},
                           {"integers_attend", integers_attend}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
