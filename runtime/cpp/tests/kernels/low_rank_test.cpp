// The two products of a low-rank change: every variant's bits, however rows and columns are cut up,
// and the definition.

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "kernels/shared/half.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::expect;
using thimble::test::Numbers;

struct Shape {
  size_t rows, columns, rank;
};
constexpr Shape kShapes[] = {{1, 1, 1},   {1, 15, 3},  {2, 16, 4},   {3, 17, 5},
                             {5, 100, 8}, {9, 64, 16}, {13, 77, 19}, {1, 576, 64}};

std::vector<float> reals(size_t count, uint32_t seed) {
  Numbers numbers(seed);
  std::vector<float> result(count);
  for (float& value : result) value = numbers.real();
  return result;
}

std::vector<uint16_t> halves(size_t count, uint32_t seed) {
  std::vector<uint16_t> result;
  for (const float value : reals(count, seed)) result.push_back(float_to_half(value));
  return result;
}

bool same(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  return expect(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0, what);
}

/// Whether run(variant, rows at a time) has scalar's bits for every variant; `result` gets them.
template <typename Run>
bool same_for_all(const Shape& shape, Run run, std::vector<float>* result) {
  *result = run(scalar::kVariant, shape.rows);
  for (const Variant* variant : all_variants()) {
    if ((variant->required & ~cpu_features()) != 0) continue;
    if (!same(run(*variant, shape.rows), *result, variant->name) ||
        !same(run(*variant, 1), *result, "the same bits row by row")) {
      return false;
    }
  }
  return true;
}

bool shrinks() {
  for (const auto& [rows, columns, rank] : kShapes) {
    const size_t x_stride = columns + 3, t_stride = rank + 2;
    const std::vector<float> x = reals(rows * x_stride, 1);
    const std::vector<uint16_t> a = halves(rank * columns, 2);
    const auto run = [&, rows = rows, columns = columns, rank = rank](const Variant& variant,
                                                                      size_t step) {
      std::vector<float> t(rows * t_stride, 7.0f);
      for (size_t m = 0; m < rows; m += step) {
        variant.shrink({x.data() + m * x_stride, x_stride, step, columns, a.data(), rank, 0.3f,
                        t.data() + m * t_stride, t_stride});
      }
      return t;
    };
    std::vector<float> t;
    if (!same_for_all({rows, columns, rank}, run, &t)) return false;
    for (size_t m = 0; m < rows; ++m) {
      for (size_t j = 0; j < rank; ++j) {
        double sum = 0, size = 0;
        for (size_t k = 0; k < columns; ++k) {
          const double product = double{x[m * x_stride + k]} * half_to_float(a[j * columns + k]);
          sum += product;
          size += std::abs(product);
        }
        const double error = std::abs(t[m * t_stride + j] - sum * 0.3f);
        if (!expect(error <= (columns + 8.0) * 0x1p-24 * size, "the definition")) return false;
      }
      if (!expect(t[m * t_stride + rank] == 7.0f, "nothing behind the rank")) return false;
    }
  }
  return true;
}

bool expands() {
  for (const auto& [rows, columns, rank] : kShapes) {
    const size_t y_stride = columns + 4;
    const std::vector<float> t = reals(rows * rank, 3), old = reals(rows * y_stride, 4);
    const std::vector<uint16_t> b = halves(rank * round_up(columns, kBlockRows), 5);
    const auto run = [&, rows = rows, columns = columns, rank = rank](const Variant& variant,
                                                                      size_t step) {
      std::vector<float> y = old;
      for (size_t m = 0; m < rows; m += step) {
        const size_t middle = step == 1 ? columns / 3 : 0;  // where no block ends
        for (const ColumnRange part : {ColumnRange{0, middle}, ColumnRange{middle, columns}}) {
          variant.expand({t.data() + m * rank, rank, step, rank, b.data(), part,
                          y.data() + m * y_stride, y_stride});
        }
      }
      return y;
    };
    std::vector<float> y;
    if (!same_for_all({rows, columns, rank}, run, &y)) return false;
    for (size_t m = 0; m < rows; ++m) {
      for (size_t n = 0; n < y_stride; ++n) {
        double sum = 0, size = std::abs(old[m * y_stride + n]);
        for (size_t j = 0; n < columns && j < rank; ++j) {
          const size_t at = (n / kBlockRows * rank + j) * kBlockRows + n % kBlockRows;
          const double product = double{t[m * rank + j]} * half_to_float(b[at]);
          sum += product;
          size += std::abs(product);
        }
        const double error = std::abs(y[m * y_stride + n] - (old[m * y_stride + n] + sum));
        if (!expect(error <= (rank + 2.0) * 0x1p-24 * size, "the definition")) return false;
      }
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const Case cases[] = {{"shrinks", shrinks}, {"expands", expands}};
  return thimble::test::run_cases(cases, argc, argv);
}
