// Gated short convolutions: every variant's bits, however the rows are cut, and the definition.

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

constexpr double kEpsilon = 0x1p-24;  // the rounding error of float32
constexpr size_t kRows = 23;

struct Problem {
  size_t columns;
  size_t taps;
  bool has_bias;
  std::vector<float> input, weight, bias;  // opening, gate and x side by side

  Problem(size_t columns_, size_t taps_, bool has_bias_)
      : columns(columns_), taps(taps_), has_bias(has_bias_) {
    Numbers numbers(5);
    const auto reals = [&](size_t count) {
      std::vector<float> values(count);
      for (float& value : values) value = 2 * numbers.real();
      return values;
    };
    input = reals(kRows * 3 * columns);
    weight = reals(taps * columns);
    bias = reals(columns);
  }

  /// The outputs of calls of these lengths, each with columns cut in two.
  std::vector<float> run(const Variant& variant, const std::vector<size_t>& lengths) const {
    const size_t history_rows = taps + 2;
    std::vector<float> history(history_rows * columns, 77), y(kRows * columns);
    size_t first = 0;
    for (const size_t rows : lengths) {
      for (const auto& [from, to] : {std::pair{size_t{0}, columns / 2}, {columns / 2, columns}}) {
        const float* parts = input.data() + first * 3 * columns + from;
        variant.convolve({parts, parts + columns, parts + 2 * columns, 3 * columns, rows, to - from,
                          first, columns, weight.data() + from, taps,
                          has_bias ? bias.data() + from : nullptr, history.data() + from,
                          history_rows, y.data() + first * columns + from, columns});
      }
      first += rows;
    }
    return y;
  }
};

bool is_defined(const Problem& p, const std::vector<float>& y) {
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < p.columns; ++i) {
      double sum = p.has_bias ? p.bias[i] : 0, size = std::fabs(sum);
      for (size_t back = 0; back < p.taps && back <= row; ++back) {
        const float* parts = p.input.data() + (row - back) * 3 * p.columns + i;
        const double term = static_cast<double>(parts[0]) * parts[2 * p.columns] *
                            p.weight[(p.taps - 1 - back) * p.columns + i];
        sum += term;
        size += std::fabs(term);
      }
      const double gate = p.input[row * 3 * p.columns + p.columns + i];
      const double error = std::fabs(y[row * p.columns + i] - gate * sum);
      if (error > kEpsilon * (p.taps + 3) * size * std::fabs(gate)) return false;
    }
  }
  return true;
}

bool shapes() {
  for (const size_t columns : {1, 15, 16, 33, 100}) {
    for (const size_t taps : {size_t{1}, size_t{2}, size_t{3}, size_t{4}, kMostTaps}) {
      for (const bool has_bias : {false, true}) {
        const Problem problem(columns, taps, has_bias);
        const std::vector<float> y = problem.run(scalar::kVariant, {kRows});
        if (!expect(is_defined(problem, y), "the definition")) return false;
        for (const Variant* variant : all_variants()) {
          if ((variant->required & ~cpu_features()) != 0) continue;
          for (const std::vector<size_t>& lengths :
               {std::vector<size_t>{kRows}, {1, 1, 1, 20}, {7, 1, 9, 6}}) {
            const std::vector<float> other = problem.run(*variant, lengths);
            if (std::memcmp(other.data(), y.data(), y.size() * sizeof(float)) == 0) continue;
            std::fprintf(stderr, "%s, %zu columns, %zu taps\n", variant->name, columns, taps);
            return expect(false, "the same bits as scalar");
          }
        }
      }
    }
  }
  return true;
}

/// Without an output, the products are kept alone: the next row is the same.
bool products_alone() {
  const Problem problem(40, 3, true);
  const std::vector<float> expected = problem.run(scalar::kVariant, {kRows});
  for (const Variant* variant : all_variants()) {
    if ((variant->required & ~cpu_features()) != 0) continue;
    std::vector<float> history(4 * 40), y(40);
    const float* last = problem.input.data() + (kRows - 1) * 120;
    ConvolutionArgs args{problem.input.data(),
                         problem.input.data() + 40,
                         problem.input.data() + 80,
                         120,
                         kRows - 1,
                         40,
                         0,
                         40,
                         problem.weight.data(),
                         3,
                         problem.bias.data(),
                         history.data(),
                         4,
                         nullptr,
                         0};
    variant->convolve(args);
    args.opening = last;
    args.gate = last + 40;
    args.x = last + 80;
    args.rows = 1;
    args.position = kRows - 1;
    args.y = y.data();
    variant->convolve(args);
    if (std::memcmp(y.data(), expected.data() + (kRows - 1) * 40, 40 * sizeof(float)) != 0) {
      return expect(false, variant->name);
    }
  }
  return true;
}

constexpr Case kCases[] = {{"shapes", shapes}, {"products_alone", products_alone}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
