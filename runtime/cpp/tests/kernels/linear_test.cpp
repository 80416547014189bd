// The linear kernels of every variant that this CPU runs against plain arithmetic and scalar.

#include <cmath>
#include <cstdio>

#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "kernels/shared/embedding.h"
#include "tests/cases.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::AlignedBuffer;
using thimble::test::Case;
using thimble::test::equal_bits;
using thimble::test::expect;
using thimble::test::Fill;
using thimble::test::is_chosen;
using thimble::test::Numbers;
using thimble::test::Problem;

constexpr WeightFormat kIntegers[] = {WeightFormat::kInt2TwoLevel, WeightFormat::kInt3TwoLevel,
                                      WeightFormat::kInt4TwoLevel, WeightFormat::kInt5TwoLevel,
                                      WeightFormat::kInt6TwoLevel, WeightFormat::kInt4,
                                      WeightFormat::kInt8,         WeightFormat::kInt8Groups};

constexpr Tile kPlainRows = {1, 4};

bool is_supported(const Variant& variant) { return (variant.required & ~cpu_features()) == 0; }

enum class Epilogue { kPlain, kBias, kAccumulate, kActivation };

struct Shape {
  size_t rows, outputs, columns, group_size;
};

/// What a linear kernel makes of a problem.
std::vector<float> run(const Variant& variant, WeightFormat format, const Shape& shape, bool matmul,
                       Fill fill, Epilogue epilogue) {
  Problem problem(format, shape.rows, shape.outputs, shape.columns, shape.group_size,
                  matmul ? variant.tile : matvec_tile(shape.rows), fill);
  LinearArgs args = problem.args();
  if (epilogue != Epilogue::kPlain) args.bias = problem.bias();
  args.accumulate = epilogue == Epilogue::kAccumulate;
  if (epilogue == Epilogue::kActivation) args.activation = Function::kGeluTanh;
  const LinearFunction* kernels = matmul ? variant.matmul : variant.matvec;
  const size_t blocks = args.last_block;
  // In two calls, as two threads would.
  args.last_block = blocks / 2;
  kernels[static_cast<int>(format)](args);
  args.first_block = blocks / 2;
  args.last_block = blocks;
  kernels[static_cast<int>(format)](args);
  return problem.y();
}

bool check(const Shape& shape, Fill fill, Epilogue epilogue) {
  if (!is_chosen()) return true;
  for (WeightFormat format : kIntegers) {
    const std::vector<float> expected = run(scalar::kVariant, format, shape, true, fill, epilogue);
    for (const Variant* variant : all_variants()) {
      if (!is_supported(*variant)) continue;
      for (bool matmul : {false, true}) {
        if (!matmul && shape.rows > kMatvecRows) continue;
        if (equal_bits(run(*variant, format, shape, matmul, fill, epilogue), expected)) continue;
        std::fprintf(stderr,
                     "%s %s: format %d, %zu rows, %zu outputs, %zu columns, groups of %zu\n",
                     variant->name, matmul ? "matmul" : "matvec", static_cast<int>(format),
                     shape.rows, shape.outputs, shape.columns, shape.group_size);
        return expect(false, "the same bits as scalar");
      }
    }
  }
  return true;
}

bool odd_shapes() {
  for (size_t rows : {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 25})
    for (size_t outputs : {1, 15, 16, 17, 33, 50, 64})
      for (size_t columns : {32, 96, 100, 257})
        if (!check({rows, outputs, columns, 32}, Fill::kRandom, Epilogue::kPlain)) return false;
  return true;
}

/// Sums and outputs of a partial block too, each of which has its own way to an activation; it is
/// what activate() makes of the outputs without one.
bool activations() {
  for (size_t rows : {1, 4, 13, 25})
    for (size_t outputs : {16, 33, 64}) {
      const Shape shape{rows, outputs, 96, 32};
      if (!check(shape, Fill::kRandom, Epilogue::kActivation)) return false;
      std::vector<float> y =
          run(scalar::kVariant, WeightFormat::kInt8, shape, true, Fill::kRandom, Epilogue::kBias);
      scalar::kVariant.activate(
          {Function::kGeluTanh, y.data(), outputs, rows, outputs, y.data(), outputs});
      if (!equal_bits(run(scalar::kVariant, WeightFormat::kInt8, shape, true, Fill::kRandom,
                          Epilogue::kActivation),
                      y))
        return expect(false, "the activation of the outputs");
    }
  return true;
}

/// Rows and columns around whole tile registers, of 16 rows by 64 columns, two by two, and chunks
/// of 512 columns.
bool whole_tiles() {
  for (size_t rows : {9, 15, 16, 17, 31, 32, 33, 40})
    for (size_t outputs : {16, 40})
      for (size_t columns : {32, 64, 96, 512, 704, 2080})
        if (!check({rows, outputs, columns, 32}, Fill::kRandom, Epilogue::kPlain)) return false;
  return true;
}

bool groups() {
  for (size_t group_size : {32, 64, 128})
    for (size_t columns : {128, 640, 1100})
      for (size_t rows : {1, 3, 6, 13, 34})
        for (Epilogue epilogue : {Epilogue::kPlain, Epilogue::kBias, Epilogue::kAccumulate})
          if (!check({rows, 40, columns, group_size}, Fill::kRandom, epilogue)) return false;
  return true;
}

bool extremes() {
  for (Fill fill : {Fill::kExtremes, Fill::kLargestProduct, Fill::kTinyScales, Fill::kSignedScales})
    for (size_t rows : {1, 4, 6, 13, 33})
      for (size_t group_size : {32, 128})
        if (!check({rows, 20, 1024, group_size}, fill, Epilogue::kPlain)) return false;
  return true;
}

/// As many columns as the contract allows.
bool most_columns() {
  for (size_t rows : {1, 2})
    if (!check({rows, 16, kMostColumns, 32}, Fill::kLargestProduct, Epilogue::kPlain)) return false;
  return true;
}

/// So many rows that they do not stay in a cache together.
bool many_rows() { return check({150, 40, 8192, 32}, Fill::kRandom, Epilogue::kPlain); }

/// A product in three parts of the columns gives the bits of one.
bool column_parts() {
  for (WeightFormat format : kIntegers) {
    if (!has_integer_sums(format)) continue;
    for (Fill fill : {Fill::kRandom, Fill::kLargestProduct})
      for (size_t rows : {1, 2, 3, 8})
        for (size_t columns : {800, 1024, 1100})
          for (const Variant* variant : all_variants()) {
            if (!is_supported(*variant) || !is_chosen()) continue;
            const Shape shape{rows, 40, columns, 32};
            const std::vector<float> expected =
                run(scalar::kVariant, format, shape, false, fill, Epilogue::kAccumulate);
            Problem problem(format, rows, shape.outputs, columns, 32, matvec_tile(rows), fill);
            LinearArgs args = problem.args();
            args.bias = problem.bias();
            args.accumulate = true;
            const size_t size = rows * args.weight.blocks() * kBlockRows;
            const size_t step = column_step(args.weight), last = args.weight.columns;
            const ColumnRange parts[] = {{0, step}, {step, 3 * step}, {3 * step, last}};
            std::vector<int32_t> sums(3 * size, 99);
            for (size_t part = 0; part < 3; ++part) {
              args.columns = parts[part];
              args.sums = sums.data() + part * size;
              variant->matvec[static_cast<int>(format)](args);
            }
            args.sums = sums.data();
            variant->finish_sums(args, 3);
            if (equal_bits(problem.y(), expected)) continue;
            std::fprintf(stderr, "%s: format %d, %zu rows, %zu columns\n", variant->name,
                         static_cast<int>(format), rows, columns);
            return expect(false, "the same bits as in one part");
          }
  }
  return true;
}

/// scalar itself, against the definition in double.
bool definition_of(WeightFormat format) {
  constexpr size_t kRows = 3, kOutputs = 20, kColumns = 150, kGroup = 32, kGroups = 5;
  const size_t bits = bits_of(format);
  Numbers numbers(9);
  std::vector<int8_t> values(kOutputs * kColumns);
  std::vector<uint8_t> multiples(kOutputs * kGroups);
  std::vector<float> row_scales(kOutputs), x(kRows * kColumns), y(kRows * kOutputs);
  for (int8_t& value : values) {
    const int32_t code = numbers.between(0, static_cast<int32_t>(last_code(bits)));
    value = static_cast<int8_t>(value_of(bits, static_cast<size_t>(code)));
  }
  for (uint8_t& multiple : multiples)
    multiple = static_cast<uint8_t>(numbers.between(1, largest_multiple(format)));
  for (float& scale : row_scales) scale = 0.01f * (1.5f + numbers.real());
  for (float& value : x) value = numbers.real();
  PackedWeight weight{nullptr, kOutputs, stored_columns(format, kColumns, kGroup), kGroup, format};
  AlignedBuffer packed(weight.bytes()), scratch(linear_scratch_bytes(weight.columns));
  pack_two_level(format, values.data(), multiples.data(), row_scales.data(), kOutputs, kColumns,
                 kGroup, packed.data());
  weight.data = packed.data();
  std::vector<int8_t> q(kRows * weight.columns);
  std::vector<RowParams> params(kRows);
  std::vector<int32_t> group_bias(kRows * weight.columns / kColumnStep);
  const QuantizedRows rows{q.data(), params.data(),  group_bias.data(), nullptr,
                           kRows,    weight.columns, kPlainRows,        0};
  scalar::kVariant.quantize({x.data(), kColumns, kColumns, rows});
  scalar::kVariant.matvec[static_cast<int>(format)](
      {rows, weight, 0, weight.blocks(), y.data(), kOutputs, nullptr, false, scratch.data()});
  for (size_t m = 0; m < kRows; ++m)
    for (size_t n = 0; n < kOutputs; ++n) {
      double expected = 0, size = 0;
      for (size_t k = 0; k < kColumns; ++k) {
        const double xq = static_cast<double>(params[m].scale) *
                          (q[m * weight.columns + k] - params[m].zero_point);
        if (std::fabs(xq - x[m * kColumns + k]) > 0.51 * params[m].scale)
          return expect(false, "activations within half a step");
        const double term = xq * values[n * kColumns + k] * multiples[n * kGroups + k / kGroup] *
                            static_cast<double>(row_scales[n]);
        expected += term;
        size += std::fabs(term);
      }
      // Three roundings of the result: of the integer, of the scales' product, of the last product.
      if (std::fabs(y[m * kOutputs + n] - expected) > 3 * 0x1p-24 * size)
        return expect(false, "the definition of the product");
    }
  return true;
}

/// The same where groups have float scales, of weights and inputs.
bool definition_in_groups(WeightFormat format) {
  constexpr size_t kRows = 3, kOutputs = 20, kColumns = 150, kGroup = 64, kGroups = 3;
  Problem problem(format, kRows, kOutputs, kColumns, kGroup, kPlainRows);
  const LinearArgs args = problem.args();
  scalar::kVariant.matvec[static_cast<int>(format)](args);
  std::vector<float> row(args.weight.columns);
  for (size_t n = 0; n < kOutputs; ++n) {
    unpack_row(args.weight, n, kColumns, row.data());
    for (size_t m = 0; m < kRows; ++m) {
      double expected = 0, size = 0;
      for (size_t k = 0; k < kColumns; ++k) {
        const double scale = args.x.group_scale(m, k / kGroup);
        const double term = scale * args.x.values[m * args.x.columns + k] * row[k];
        expected += term;
        size += std::fabs(term);
      }
      // A product of scales in each group, and a sum: of three groups.
      if (std::fabs(problem.y()[m * kOutputs + n] - expected) > 2 * kGroups * 0x1p-24 * size)
        return expect(false, "the definition of the product in groups");
    }
  }
  return true;
}

bool definition() {
  if (!definition_in_groups(WeightFormat::kInt4) ||
      !definition_in_groups(WeightFormat::kInt8Groups)) {
    return false;
  }
  return definition_of(WeightFormat::kInt2TwoLevel) && definition_of(WeightFormat::kInt3TwoLevel) &&
         definition_of(WeightFormat::kInt4TwoLevel) && definition_of(WeightFormat::kInt5TwoLevel) &&
         definition_of(WeightFormat::kInt6TwoLevel);
}

bool float_weights() {
  for (size_t columns : {1, 6, 33, 128, 387, 388})
    for (size_t outputs : {5, 16, 40}) {
      constexpr size_t kRows = 8;
      Numbers numbers(static_cast<uint32_t>(columns));
      std::vector<float> values(outputs * columns), x(kRows * columns);
      for (float& value : values) value = numbers.real();
      for (float& value : x) value = numbers.real();
      PackedWeight weight{nullptr, outputs, columns, 0, WeightFormat::kFloat32};
      AlignedBuffer packed(weight.bytes());
      pack_float32(values.data(), outputs, columns, packed.data());
      weight.data = packed.data();
      std::vector<float> expected;
      const VariantList variants = all_variants();
      for (size_t i = variants.count; i-- > 0;) {  // scalar first
        if (!is_supported(*variants.variants[i])) continue;
        std::vector<float> y(kRows * outputs);
        variants.variants[i]->float_linear({x.data(), columns, kRows, weight, 0, weight.blocks(),
                                            y.data(), outputs, nullptr, false});
        if (expected.empty()) expected = y;
        if (!equal_bits(y, expected)) return expect(false, "the same bits as scalar");
      }
      for (size_t m = 0; m < kRows; ++m)
        for (size_t n = 0; n < outputs; ++n) {
          double sum = 0;
          for (size_t k = 0; k < columns; ++k)
            sum += static_cast<double>(x[m * columns + k]) * values[n * columns + k];
          if (std::fabs(sum - expected[m * outputs + n]) > 0x1p-24 * columns * columns)
            return expect(false, "the float product");
        }
    }
  return true;
}

constexpr Case kCases[] = {{"odd_shapes", odd_shapes},   {"activations", activations},
                           {"whole_tiles", whole_tiles}, {"groups", groups},
                           {"extremes", extremes},       {"most_columns", most_columns},
                           {"many_rows", many_rows},     {"column_parts", column_parts},
                           {"definition", definition},   {"float_weights", float_weights}};

}  // namespace

int main(int argc, char** argv) { return thimble::test::run_cases(kCases, argc, argv); }
