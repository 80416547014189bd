// Quantization of activations: every variant's bytes, and the definition.

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::Case;
using thimble::test::equal_bits;
using thimble::test::expect;
using thimble::test::Numbers;

constexpr Tile kPlainRows = {1, 4};

struct Quantized {
  std::vector<int8_t> values;
  std::vector<RowParams> params;
  std::vector<int32_t> group_bias;
  std::vector<float> group_scales;
  size_t columns;

  bool operator==(const Quantized& other) const {
    return values == other.values && group_bias == other.group_bias &&
           equal_bits(params, other.params) && equal_bits(group_scales, other.group_scales);
  }
};

/// \param group_size 0: each row as a whole.
Quantized quantize(const Variant& variant, const std::vector<float>& x, size_t rows, Tile tile,
                   size_t group_size = 0, size_t rotated = 0) {
  std::vector<float> scratch(x.size() / rows);
  const size_t columns = x.size() / rows;
  const size_t stored = stored_columns(WeightFormat::kInt8Groups, columns, group_size);
  const size_t padded_rows = round_up(rows, tile.mr);
  const size_t groups = group_size > 0 ? padded_rows * stored / group_size : 0;
  Quantized result{std::vector<int8_t>(padded_rows * stored, 99), std::vector<RowParams>(rows),
                   std::vector<int32_t>(padded_rows * stored / kColumnStep, 99),
                   std::vector<float>(groups, 99), stored};
  variant.quantize({x.data(),
                    columns,
                    columns,
                    {result.values.data(), result.params.data(), result.group_bias.data(),
                     result.group_scales.data(), rows, stored, tile, group_size},
                    rotated,
                    scratch.data()});
  return result;
}

std::vector<float> random_rows(size_t rows, size_t columns) {
  Numbers numbers(static_cast<uint32_t>(rows * 100 + columns));
  std::vector<float> x(rows * columns);
  for (float& value : x) value = numbers.real() * (numbers.next() % 16 == 0 ? 30.0f : 1.0f);
  return x;
}

bool all_variants_agree(const std::vector<float>& x, size_t rows) {
  for (Tile tile : {kPlainRows, Tile{2, 4}, Tile{4, 4}, Tile{12, 4}, Tile{8, 8}, Tile{16, 64}}) {
    for (size_t group_size : {0, 32, 64, 128}) {
      const Quantized expected = quantize(scalar::kVariant, x, rows, tile, group_size);
      for (const Variant* variant : all_variants()) {
        if ((variant->required & ~cpu_features()) != 0) continue;
        if (quantize(*variant, x, rows, tile, group_size) == expected) continue;
        std::fprintf(stderr, "%s, tile of %zu, groups of %zu\n", variant->name, tile.mr,
                     group_size);
        return expect(false, "the same bytes as scalar");
      }
    }
  }
  return true;
}

bool shapes() {
  for (size_t rows : {1, 4, 13})
    for (size_t columns : {1, 15, 16, 31, 32, 33, 100, 576})
      if (!all_variants_agree(random_rows(rows, columns), rows)) return false;
  return true;
}

/// NaN, infinities, denormals, constants: no hang, no undefined conversion, one answer.
bool odd_numbers() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (float odd : {nan, infinity, -infinity, 1e-42f, -1e-42f, FLT_MAX, -FLT_MAX, 0.0f, -0.0f}) {
    std::vector<float> x = random_rows(2, 70);
    x[3] = odd;
    x[69] = odd;  // beyond the last whole vector
    if (!all_variants_agree(x, 2)) return false;
    if (!all_variants_agree(std::vector<float>(40, odd), 1)) return false;
  }
  std::vector<float> x = {nan, 1.0f, -1.0f};
  const Quantized quantized = quantize(scalar::kVariant, x, 1, kPlainRows);
  return expect(quantized.values[0] == -128 && quantized.params[0].scale == 2.0f / 255.0f,
                "a NaN that counts for nothing and becomes -128");
}

/// The tiles hold what the plain rows hold, in their order, and zeros below the last row.
bool tiles() {
  constexpr size_t kRows = 13;
  const std::vector<float> x = random_rows(kRows, 100);
  const Quantized plain = quantize(scalar::kVariant, x, kRows, kPlainRows);
  for (Tile tile : {Tile{4, 4}, Tile{12, 4}, Tile{8, 8}, Tile{16, 64}}) {
    const Quantized tiled = quantize(scalar::kVariant, x, kRows, tile);
    const auto [mr, kr] = tile;
    for (size_t m = 0; m < round_up(kRows, mr); ++m)
      for (size_t k = 0; k < plain.columns; ++k) {
        const int8_t expected = m < kRows ? plain.values[m * plain.columns + k] : 0;
        // Only the last step can be narrower: 32 columns of 64.
        const size_t step_start = k / kr * kr, width = std::min(kr, plain.columns - step_start);
        const size_t at = m / mr * mr * plain.columns + step_start * mr + m % mr * width + k % kr;
        if (tiled.values[at] != expected) return expect(false, "the values of the plain rows");
        const size_t steps = plain.columns / kColumnStep, step = k / kColumnStep;
        const int32_t bias = m < kRows ? plain.group_bias[m * steps + step] : 0;
        if (tiled.group_bias[(m / mr * steps + step) * mr + m % mr] != bias)
          return expect(false, "the biases of the plain rows");
      }
  }
  return true;
}

/// Rows that it rotates are those that hadamard() rotates.
bool rotated() {
  constexpr size_t kRows = 13, kColumns = 192;
  const std::vector<float> x = random_rows(kRows, kColumns);
  for (const Variant* variant : all_variants()) {
    if ((variant->required & ~cpu_features()) != 0) continue;
    for (size_t block : {16, 32, 64}) {
      std::vector<float> before(x.size());
      variant->hadamard(x.data(), x.size(), block, before.data());
      if (!(quantize(*variant, x, kRows, variant->tile, 0, block) ==
            quantize(*variant, before, kRows, variant->tile)))
        return expect(false, "the bytes of rotated rows");
    }
  }
  return true;
}

/// Each group by itself, symmetric; zeros below the last row and behind the last column.
bool groups() {
  constexpr size_t kRows = 5, kColumns = 150, kGroup = 32;
  std::vector<float> x = random_rows(kRows, kColumns);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(&x[kColumns], kGroup, 0.0f);  // all of a group
  for (Tile tile : {kPlainRows, Tile{4, 4}, Tile{16, 64}}) {
    const Quantized quantized = quantize(scalar::kVariant, x, kRows, tile, kGroup);
    const size_t stored = quantized.columns, mr = tile.mr;
    for (size_t m = 0; m < round_up(kRows, mr); ++m)
      for (size_t k = 0; k < stored; ++k) {
        const size_t first = k / kGroup * kGroup;
        float size = 0;
        for (size_t i = first; m < kRows && i < std::min(first + kGroup, kColumns); ++i)
          size = std::max(size, std::fabs(x[m * kColumns + i]));  // ignores a NaN
        const float scale = m < kRows ? std::max(size / 127.0f, FLT_MIN) : 0.0f;
        const size_t at = m / mr * mr * (stored / kGroup) + k / kGroup * mr + m % mr;
        if (quantized.group_scales[at] != scale) return expect(false, "the largest over 127");
        const bool inside = m < kRows && k < kColumns;
        const float value = inside ? x[m * kColumns + k] : 0.0f;
        const int8_t q = quantized.values[quantized_offset(m, k, stored, tile)];
        const bool right =
            std::isnan(value) ? q == -127 : std::fabs(q * scale - value) <= 0.51f * scale;
        if (!right) return expect(false, "within half a step");
      }
  }
  return true;
}

bool sums() {
  const Quantized quantized = quantize(scalar::kVariant, random_rows(3, 100), 3, kPlainRows);
  for (size_t m = 0; m < 3; ++m) {
    int32_t total = 0;
    for (size_t step = 0; step < quantized.columns / kColumnStep; ++step) {
      int32_t sum = 0;
      for (size_t i = 0; i < kColumnStep; ++i)
        sum += quantized.values[m * quantized.columns + step * kColumnStep + i];
      if (quantized.group_bias[m * quantized.columns / kColumnStep + step] != -7 * sum)
        return expect(false, "-7 times the sum of each 32");
      total += sum;
    }
    if (quantized.params[m].sum != total) return expect(false, "the sum of the row");
  }
  return true;
}

/// Prints x, scale, zero point and q of a row as hexadecimal floats and numbers, for a comparison
/// with another implementation.
int print_row(const char* path) {
  std::vector<float> x;
  std::FILE* file = std::fopen(path, "rb");
  float value;
  while (file != nullptr && std::fread(&value, sizeof value, 1, file) == 1) x.push_back(value);
  if (file == nullptr || x.empty()) return 1;
  std::fclose(file);
  const Quantized quantized = quantize(scalar::kVariant, x, 1, kPlainRows);
  std::printf("%a %d", quantized.params[0].scale, quantized.params[0].zero_point);
  for (size_t k = 0; k < x.size(); ++k) std::printf(" %d", quantized.values[k]);
  std::printf("\n");
  return 0;
}

constexpr Case kCases[] = {{"shapes", shapes},   {"odd_numbers", odd_numbers}, {"tiles", tiles},
                           {"rotated", rotated}, {"groups", groups},           {"sums", sums}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--print") == 0) return print_row(argv[2]);
  return thimble::test::run_cases(kCases, argc, argv);
}
