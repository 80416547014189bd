// The gated delta rule: every variant's bits, however the rows are cut, and the definition.

#include <cmath>
#include <cstdio>
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

constexpr size_t kRows = 150;  // more than are prepared together

struct Result {
  std::vector<float> y, state, log;
};

struct Problem {
  size_t key_dim;
  size_t value_dim;
  float a_log;
  std::vector<float> qkv, gates;

  Problem(size_t key_dim_, size_t value_dim_, float a_log_)
      : key_dim(key_dim_), value_dim(value_dim_), a_log(a_log_) {
    Numbers numbers(8);
    qkv.resize(kRows * stride());
    gates.resize(kRows * 2);
    for (float& value : qkv) value = 2 * numbers.real();
    for (float& value : gates) value = 3 * numbers.real();
  }

  size_t stride() const { return 2 * key_dim + value_dim; }

  Result run(const Variant& variant, const std::vector<size_t>& lengths) const {
    const size_t padded = round_up(value_dim, 16);
    const size_t step = delta_step_size(key_dim, value_dim);
    Result result{std::vector<float>(kRows * value_dim), std::vector<float>(key_dim * padded),
                  std::vector<float>(kDeltaLogRows * step)};
    std::vector<float> scratch(kDeltaRows * 2 * key_dim);
    size_t first = 0;
    for (const size_t rows : lengths) {
      const float* row = qkv.data() + first * stride();
      variant.delta_rule({row,
                          row + key_dim,
                          row + 2 * key_dim,
                          stride(),
                          gates.data() + 2 * first,
                          2,
                          gates.data() + 2 * first + 1,
                          2,
                          a_log,
                          0.3f,
                          rows,
                          key_dim,
                          value_dim,
                          result.state.data(),
                          result.y.data() + first * value_dim,
                          value_dim,
                          scratch.data(),
                          first,
                          result.log.data(),
                          step});
      first += rows;
    }
    return result;
  }
};

/// In double: the largest error of an output, as a part of the largest output.
double error_of(const Problem& p, const std::vector<float>& y) {
  std::vector<double> state(p.key_dim * p.value_dim), q(p.key_dim), k(p.key_dim);
  double worst = 0, largest = 0;
  for (size_t row = 0; row < kRows; ++row) {
    const float* x = p.qkv.data() + row * p.stride();
    for (const auto& [from, to] : {std::pair{x, &q}, {x + p.key_dim, &k}}) {
      double squares = 0;
      for (size_t i = 0; i < p.key_dim; ++i) squares += static_cast<double>(from[i]) * from[i];
      for (size_t i = 0; i < p.key_dim; ++i) (*to)[i] = from[i] / std::sqrt(squares + 1e-6);
    }
    const double a = p.gates[2 * row] + 0.3, b = p.gates[2 * row + 1];
    const double decay = std::exp(-std::exp(p.a_log) * std::log1p(std::exp(a)));
    for (size_t j = 0; j < p.value_dim; ++j) {
      double kept = 0, out = 0;
      for (size_t i = 0; i < p.key_dim; ++i) kept += decay * state[i * p.value_dim + j] * k[i];
      const double delta = (x[2 * p.key_dim + j] - kept) / (1 + std::exp(-b));
      for (size_t i = 0; i < p.key_dim; ++i) {
        double& number = state[i * p.value_dim + j];
        number = decay * number + k[i] * delta;
        out += number * q[i] / std::sqrt(p.key_dim);
      }
      worst = std::fmax(worst, std::fabs(y[row * p.value_dim + j] - out));
      largest = std::fmax(largest, std::fabs(out));
    }
  }
  return worst / largest;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), b.size() * sizeof(float)) == 0;
}

bool shapes() {
  for (const auto& [key_dim, value_dim] :
       {std::pair{1, 1}, {8, 16}, {20, 12}, {33, 40}, {128, 128}}) {
    for (const float a_log : {-4.0f, 0.0f, 2.5f}) {
      const Problem problem(static_cast<size_t>(key_dim), static_cast<size_t>(value_dim), a_log);
      const Result expected = problem.run(scalar::kVariant, {kRows});
      if (!expect(error_of(problem, expected.y) < 1e-5, "the definition")) return false;
      for (const Variant* variant : all_variants()) {
        if ((variant->required & ~cpu_features()) != 0) continue;
        for (const std::vector<size_t>& lengths :
             {std::vector<size_t>{kRows}, {1, 1, 1, kRows - 3}, {70, 1, 9, kRows - 80}}) {
          const Result other = problem.run(*variant, lengths);
          if (same(other.y, expected.y) && same(other.state, expected.state) &&
              same(other.log, expected.log)) {
            continue;
          }
          std::fprintf(stderr, "%s, %d x %d\n", variant->name, key_dim, value_dim);
          return expect(false, "the same bits as scalar");
        }
      }
    }
  }
  return true;
}

/// The last rows' steps, done once more.
bool steps_again() {
  for (const auto& [key_dim, value_dim] : {std::pair{1, 1}, {20, 12}, {33, 40}}) {
    const Problem problem(static_cast<size_t>(key_dim), static_cast<size_t>(value_dim), 0);
    const Result all = problem.run(scalar::kVariant, {kRows});
    for (const size_t rows : {size_t{1}, size_t{11}, kDeltaLogRows}) {
      const Result before = problem.run(scalar::kVariant, {kRows - rows});
      for (const Variant* variant : all_variants()) {
        if ((variant->required & ~cpu_features()) != 0) continue;
        std::vector<float> state = before.state;
        variant->replay_delta({all.log.data(), delta_step_size(problem.key_dim, problem.value_dim),
                               kRows - rows, rows, problem.key_dim, problem.value_dim,
                               state.data()});
        if (!same(state, all.state)) return expect(false, variant->name);
      }
    }
  }
  return true;
}

/// Gates at their ends: nothing is kept, everything is, nothing is new; all numbers stay numbers.
bool gates_at_their_ends() {
  for (const float a : {-200.0f, 0.0f, 200.0f}) {
    for (const float b : {-200.0f, 200.0f}) {
      Problem problem(16, 16, 1.0f);
      for (size_t row = 0; row < kRows; ++row) {
        problem.gates[2 * row] = a;
        problem.gates[2 * row + 1] = b;
      }
      const Result result = problem.run(scalar::kVariant, {kRows});
      for (const float value : result.y) {
        if (!std::isfinite(value)) return expect(false, "numbers");
      }
      if (b < 0) {
        for (const float value : result.y) {
          if (std::fabs(value) > 1e-20f) return expect(false, "nothing new without a gate");
        }
      }
      for (const Variant* variant : all_variants()) {
        if ((variant->required & ~cpu_features()) != 0) continue;
        const Result other = problem.run(*variant, {kRows});
        if (!same(other.y, result.y)) return expect(false, variant->name);
      }
    }
  }
  return true;
}

constexpr Case kCases[] = {
    {"shapes", shapes}, {"steps_again", steps_again}, {"gates_at_their_ends", gates_at_their_ends}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
