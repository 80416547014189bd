// Metal's linear kernels on the shim: scalar's bits, whatever the order of threads.

#include <tuple>

#include "tests/metal/problem.h"

namespace {

using namespace thimble;
using kernels::WeightFormat;
using metal::Kernel;
using test::expect;
using test::Fill;

constexpr WeightFormat kFormats[] = {WeightFormat::kInt4TwoLevel, WeightFormat::kInt5TwoLevel,
                                     WeightFormat::kInt6TwoLevel, WeightFormat::kInt4,
                                     WeightFormat::kInt8,         WeightFormat::kInt8Groups};
/// Rows in the order of their tokens, as Metal's kernels have them.
constexpr kernels::Tile kRowMajor = {1, 64};

struct Shape {
  size_t rows, outputs, columns, group_size;
};

/// What the linear's end does beside.
struct End {
  bool bias, accumulate, swiglu;
};

Kernel of_format(Kernel first, WeightFormat format) {
  return static_cast<Kernel>(static_cast<size_t>(first) + static_cast<size_t>(format));
}

/// What scalar makes of a product: SwiGLU and the sum apart, as the CPU delegate does them.
std::vector<float> expected_outputs(test::Problem* problem, const End& end, size_t columns,
                                    const std::vector<float>& before) {
  const kernels::Variant& scalar = kernels::scalar::kVariant;
  kernels::LinearArgs args = problem->args();
  std::vector<float> y = before;
  if (end.bias) args.bias = problem->bias();
  if (!end.swiglu) {
    args.y = y.data();
    args.y_stride = columns;
    args.accumulate = end.accumulate;
    scalar.matmul[static_cast<size_t>(args.weight.format)](args);
    return y;
  }
  std::vector<float> both(args.x.rows * args.weight.rows);
  args.y = both.data();
  args.y_stride = args.weight.rows;
  scalar.matmul[static_cast<size_t>(args.weight.format)](args);
  for (size_t m = 0; m < args.x.rows; ++m) {
    for (size_t column = 0; column < columns; ++column) {
      const float* gate = &both[m * args.weight.rows + column / 16 * 32 + column % 16];
      float value;
      scalar.glu({kernels::Function::kSilu, gate, gate + 16, 0, 1, 1, &value, 0, false});
      float* to = &y[m * columns + column];
      if (end.accumulate) {
        scalar.elementwise({kernels::Function::kAdd, to, &value, 0, 1, to});
      } else {
        *to = value;
      }
    }
  }
  return y;
}

bool same_as_scalar(WeightFormat format, const Shape& shape, const End& end,
                    Fill fill = Fill::kRandom) {
  const size_t outputs = end.swiglu ? 2 * kernels::round_up(shape.outputs, 16) : shape.outputs;
  test::Problem problem(format, shape.rows, outputs, shape.columns, shape.group_size, kRowMajor,
                        fill);
  const kernels::LinearArgs args = problem.args();
  const std::vector<float> before = test::random_floats(shape.rows * shape.outputs, 9);
  const std::vector<float> expected = expected_outputs(&problem, end, shape.outputs, before);
  std::vector<RowScale> rows;
  std::vector<float> groups;
  for (size_t m = 0; m < shape.rows; ++m) {
    rows.push_back({args.x.params[m].scale, args.x.params[m].zero_point});
    for (size_t k = 0; args.x.group_size > 0 && k < args.x.columns; k += args.x.group_size) {
      groups.push_back(args.x.group_scale(m, k / args.x.group_size));
    }
  }
  void* const scales = groups.empty() ? static_cast<void*>(rows.data()) : groups.data();
  LinearParams params{};
  params.weight = test::weight_params(args.weight);
  params.rows = static_cast<uint32_t>(shape.rows);
  params.y_stride = params.y_columns = static_cast<uint32_t>(shape.outputs);
  params.has_bias = end.bias;
  params.accumulate = end.accumulate;
  params.swiglu = end.swiglu;
  const size_t pairs = kernels::divide_up(outputs, 32);
  for (const bool is_matvec : {true, false}) {
    const Kernel kernel =
        of_format(is_matvec ? Kernel::kMatvecInt4TwoLevel : Kernel::kMatmulInt4TwoLevel, format);
    const size_t tiles = is_matvec ? shape.rows : kernels::divide_up(shape.rows, 32);
    for (const metal_shim::Order order : test::kOrders) {
      test::Guarded<float> y(before.size());
      std::copy(before.begin(), before.end(), y.data());
      const bool ran = test::run_kernel(kernel, order, params,
                                        {const_cast<uint8_t*>(args.weight.data), args.x.values,
                                         scales, const_cast<float*>(problem.bias()), y.data()},
                                        pairs, tiles);
      if (!ran) return false;
      if (y.intact() && test::equal_bits(y.values(), expected)) continue;
      std::fprintf(stderr, "%s, %zu x %zu x %zu, groups of %zu: not scalar's bits\n",
                   metal::shape_of(kernel).name, shape.rows, shape.outputs, shape.columns,
                   shape.group_size);
      return false;
    }
  }
  return true;
}

bool all_formats(const std::vector<Shape>& shapes, const std::vector<End>& ends,
                 Fill fill = Fill::kRandom) {
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : shapes) {
      for (const End& end : ends) {
        if (!same_as_scalar(format, shape, end, fill)) return false;
      }
    }
  }
  return true;
}

bool odd_shapes() {
  return all_formats({{1, 1, 1, 32},
                      {1, 17, 33, 32},
                      {2, 47, 300, 32},
                      {5, 48, 65, 64},
                      {33, 15, 129, 128},
                      {31, 65, 200, 32}},
                     {{false, false, false}, {true, true, false}});
}

bool groups() {
  return all_formats({{3, 32, 512, 32}, {3, 40, 640, 64}, {3, 32, 1152, 128}, {34, 16, 384, 128}},
                     {{true, false, false}});
}

bool swiglu_pairs() {
  return all_formats({{1, 16, 64, 32}, {4, 40, 96, 32}, {35, 23, 128, 64}, {2, 1, 70, 32}},
                     {{false, false, true}, {true, false, true}, {true, true, true}});
}

bool extremes() {
  for (const Fill fill : {Fill::kExtremes, Fill::kLargestProduct, Fill::kTinyScales}) {
    if (!all_formats({{2, 18, 4096, 32}, {33, 16, 256, 128}}, {{false, false, false}}, fill)) {
      return false;
    }
  }
  return true;
}

/// The largest sum that int32 holds.
bool most_columns() {
  return same_as_scalar(WeightFormat::kInt8, {1, 16, kernels::kMostColumns, 32},
                        {false, false, false}, Fill::kLargestProduct);
}

bool float_weights() {
  for (const auto& [rows, outputs, columns, swiglu] :
       {std::tuple<size_t, size_t, size_t, bool>{1, 1, 1, false},
        {1, 33, 70, false},
        {9, 47, 131, false},
        {17, 20, 64, true},
        {3, 48, 5, true}}) {
    const size_t weight_rows = swiglu ? 2 * kernels::round_up(outputs, 16) : outputs;
    const std::vector<float> values = test::random_floats(weight_rows * columns, 3);
    const std::vector<float> bias = test::random_floats(weight_rows, 4);
    std::vector<float> x = test::random_floats(rows * (columns + 3), 5, 40);
    kernels::PackedWeight weight{nullptr, weight_rows, columns, 0, WeightFormat::kFloat32};
    test::AlignedBuffer packed(weight.bytes());
    weight.data = packed.data();
    kernels::pack_float32(values.data(), weight_rows, columns, packed.data());
    const std::vector<float> before = test::random_floats(rows * outputs, 6);
    std::vector<float> expected = before;
    std::vector<float> both(rows * weight_rows);
    const kernels::Variant& scalar = kernels::scalar::kVariant;
    float* to = swiglu ? both.data() : expected.data();
    scalar.float_linear({x.data(), columns + 3, rows, weight, 0, weight.blocks(), to, weight_rows,
                         bias.data(), !swiglu});
    for (size_t i = 0; swiglu && i < rows * outputs; ++i) {
      const size_t column = i % outputs;
      const float* gate = &both[i / outputs * weight_rows + column / 16 * 32 + column % 16];
      scalar.glu({kernels::Function::kSilu, gate, gate + 16, 0, 1, 1, &expected[i], 0, false});
    }
    LinearParams params{};
    params.weight = test::weight_params(weight);
    params.rows = static_cast<uint32_t>(rows);
    params.x_stride = static_cast<uint32_t>(columns + 3);
    params.y_stride = params.y_columns = static_cast<uint32_t>(outputs);
    params.has_bias = 1;
    params.accumulate = !swiglu;
    params.swiglu = swiglu;
    for (const metal_shim::Order order : test::kOrders) {
      test::Guarded<float> y(before.size());
      std::copy(before.begin(), before.end(), y.data());
      if (!test::run_kernel(Kernel::kFloatLinear, order, params,
                            {packed.data(), x.data(), const_cast<float*>(bias.data()), y.data()},
                            kernels::divide_up(weight_rows, 32), kernels::divide_up(rows, 8))) {
        return false;
      }
      if (!expect(y.intact() && test::equal_bits(y.values(), expected), "scalar's bits")) {
        return false;
      }
    }
  }
  return true;
}

const test::Case kCases[] = {
    {"odd_shapes", odd_shapes},     {"groups", groups},
    {"swiglu_pairs", swiglu_pairs}, {"extremes", extremes},
    {"most_columns", most_columns}, {"float_weights", float_weights},
};

}  // namespace

int main(int argc, char** argv) { return test::run_cases(kCases, argc, argv); }
