// Metal's kernels of rows on the shim: norm, quantization, embedding, sum, SwiGLU; scalar's bits.

#include <cmath>
#include <limits>

#include "tests/metal/problem.h"

namespace {

using namespace thimble;
using kernels::WeightFormat;
using metal::Kernel;
using test::expect;

constexpr size_t kColumns[] = {1, 15, 16, 33, 128, 300, 1025};
const kernels::Variant& scalar = kernels::scalar::kVariant;

uint32_t narrow(size_t number) { return static_cast<uint32_t>(number); }

/// Rows `stride` apart.
std::vector<float> test_rows(size_t rows, size_t stride, float scale) {
  return test::random_floats(rows * stride, narrow(rows + stride), scale);
}

bool norms() {
  for (const size_t columns : kColumns) {
    const size_t rows = 3, stride = columns + 2;
    const std::vector<float> x = test_rows(rows, stride, 7);
    const std::vector<float> weight = test::random_floats(columns, 2);
    std::vector<float> expected(rows * columns);
    for (size_t row = 0; row < rows; ++row) {
      scalar.rms_norm(&x[row * stride], weight.data(), 1e-5f, columns, &expected[row * columns]);
    }
    const NormParams params{narrow(columns), narrow(stride), narrow(columns), 1e-5f};
    for (const metal_shim::Order order : test::kOrders) {
      test::Guarded<float> y(rows * columns);
      const bool ran = test::run_kernel(
          Kernel::kNormRows, order, params,
          {const_cast<float*>(x.data()), const_cast<float*>(weight.data()), y.data()}, rows);
      if (!ran || !expect(y.intact() && test::equal_bits(y.values(), expected), "scalar's norm")) {
        return false;
      }
    }
  }
  return true;
}

bool norm_in_place() {
  const size_t columns = 200;
  std::vector<float> x = test_rows(2, columns, 3), expected = x;
  const std::vector<float> weight = test::random_floats(columns, 2);
  for (size_t row = 0; row < 2; ++row) {
    float* at = &expected[row * columns];
    scalar.rms_norm(at, weight.data(), 1e-6f, columns, at);
  }
  const NormParams params{narrow(columns), narrow(columns), narrow(columns), 1e-6f};
  for (const metal_shim::Order order : test::kOrders) {
    std::vector<float> y = x;
    if (!test::run_kernel(Kernel::kNormRows, order, params,
                          {y.data(), const_cast<float*>(weight.data()), y.data()}, 2) ||
        !expect(test::equal_bits(y, expected), "scalar's norm in place")) {
      return false;
    }
  }
  return true;
}

/// Compares what is made of rows `stride` apart with what scalar makes, normed first or not.
/// \param group_size 0: each row as a whole.
bool quantizes_like_scalar(const std::vector<float>& x, size_t rows, size_t stride, size_t columns,
                           bool normed, size_t group_size) {
  const size_t stored = kernels::round_up(columns, std::max<size_t>(group_size, 32));
  const size_t groups = group_size > 0 ? rows * stored / group_size : 0;
  const std::vector<float> norm = test::random_floats(columns, 8);
  std::vector<float> input = x;
  for (size_t row = 0; normed && row < rows; ++row) {
    float* at = &input[row * stride];
    scalar.rms_norm(at, norm.data(), 1e-5f, columns, at);
  }
  std::vector<int8_t> q(rows * stored);
  std::vector<kernels::RowParams> rows_params(rows);
  std::vector<int32_t> group_bias(rows * stored / 32);
  std::vector<float> group_scales(groups);
  scalar.quantize({input.data(),
                   stride,
                   columns,
                   {q.data(),
                    rows_params.data(),
                    group_bias.data(),
                    group_scales.data(),
                    rows,
                    stored,
                    {1, 64},
                    group_size}});
  const QuantizeParams params{narrow(columns), narrow(stored), narrow(stride),
                              normed,          1e-5f,          narrow(group_size)};
  for (const metal_shim::Order order : test::kOrders) {
    test::Guarded<int8_t> bytes(rows * stored);
    test::Guarded<RowScale> scales(rows);
    test::Guarded<float> own_scales(groups);
    void* const out = groups > 0 ? static_cast<void*>(own_scales.data()) : scales.data();
    if (!test::run_kernel(
            Kernel::kQuantizeRows, order, params,
            {const_cast<float*>(x.data()), const_cast<float*>(norm.data()), bytes.data(), out},
            rows)) {
      return false;
    }
    bool same = bytes.intact() && scales.intact() && own_scales.intact() && bytes.values() == q &&
                test::equal_bits(own_scales.values(), group_scales);
    for (size_t row = 0; group_size == 0 && row < rows; ++row) {
      same = same && std::memcmp(&scales[row].scale, &rows_params[row].scale, 4) == 0 &&
             scales[row].zero_point == rows_params[row].zero_point;
    }
    if (!expect(same, "scalar's quantized rows")) return false;
  }
  return true;
}

bool quantization() {
  for (const size_t columns : kColumns) {
    for (const bool normed : {false, true}) {
      const std::vector<float> x = test_rows(4, columns + 1, 20);
      for (const size_t group_size : {0, 32, 128}) {
        if (!quantizes_like_scalar(x, 4, columns + 1, columns, normed, group_size)) return false;
      }
    }
  }
  return true;
}

bool rotation() {
  constexpr size_t kRows = 3, kPieces = 3;
  for (const uint32_t block : {16u, 32u, 64u}) {
    for (const bool normed : {false, true}) {
      const size_t columns = kPieces * block, stride = columns + 1;
      const std::vector<float> x = test_rows(kRows, stride, 20);
      const std::vector<float> norm = test::random_floats(columns, 8);
      std::vector<float> expected;
      for (size_t row = 0; row < kRows; ++row) {
        std::vector<float> out(&x[row * stride], &x[row * stride] + columns);
        if (normed) scalar.rms_norm(out.data(), norm.data(), 1e-5f, columns, out.data());
        scalar.hadamard(out.data(), columns, block, out.data());
        expected.insert(expected.end(), out.begin(), out.end());
      }
      const RotateParams params{narrow(columns), narrow(stride), normed,
                                1e-5f,           block,          1.0f / std::sqrt(float(block))};
      for (const metal_shim::Order order : test::kOrders) {
        test::Guarded<float> y(expected.size());
        if (!test::run_kernel(
                Kernel::kRotateRows, order, params,
                {const_cast<float*>(x.data()), const_cast<float*>(norm.data()), y.data()}, kRows) ||
            !expect(y.intact() && test::equal_bits(y.values(), expected), "scalar's rotation")) {
          return false;
        }
      }
    }
  }
  return true;
}

bool odd_numbers() {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float huge = std::numeric_limits<float>::max();
  const std::vector<std::vector<float>> all = {std::vector<float>(40, 0.0f),
                                               {nan, 1.0f, -2.0f},
                                               {nan, nan},
                                               {1e-42f, -1e-42f},
                                               {-3.0f, -5.0f, -0.0f},
                                               {3.0f, 5.0f, 1e4f},
                                               {huge / 2, -huge / 4, 1e-30f},
                                               {2.5f, 3.5f, 0.5f, 127.5f}};
  for (const std::vector<float>& x : all) {
    if (!quantizes_like_scalar(x, 1, x.size(), x.size(), false, 0) ||
        !quantizes_like_scalar(x, 1, x.size(), x.size(), false, 32))
      return false;
  }
  return true;
}

bool embedding() {
  const size_t rows = 37, columns = 70;
  for (size_t kind = 0; kind <= static_cast<size_t>(WeightFormat::kFloat32); ++kind) {
    const auto format = static_cast<WeightFormat>(kind);
    test::Problem problem(format == WeightFormat::kFloat32 ? WeightFormat::kInt8 : format, 1, rows,
                          columns, 32, {1, 64});
    kernels::PackedWeight weight = problem.args().weight;
    const std::vector<float> values = test::random_floats(rows * columns, 3);
    if (format == WeightFormat::kFloat32) weight = {nullptr, rows, columns, 0, format};
    test::AlignedBuffer floats(weight.bytes());
    if (format == WeightFormat::kFloat32) {
      kernels::pack_float32(values.data(), rows, columns, floats.data());
      weight.data = floats.data();
    }
    std::vector<int32_t> tokens = {0, 36, 15, 16, 16, 31, 7};
    std::vector<float> expected(tokens.size() * columns);
    for (size_t i = 0; i < tokens.size(); ++i) {
      kernels::unpack_row(weight, static_cast<size_t>(tokens[i]), columns, &expected[i * columns]);
    }
    const EmbedParams params{test::weight_params(weight), narrow(columns), narrow(columns)};
    test::Guarded<float> y(expected.size());
    if (!test::run_kernel(Kernel::kEmbedRows, metal_shim::Order::kForward, params,
                          {const_cast<uint8_t*>(weight.data), tokens.data(), y.data()},
                          tokens.size()) ||
        !expect(y.intact() && test::equal_bits(y.values(), expected), "the rows of the matrix")) {
      return false;
    }
  }
  return true;
}

bool pairs() {
  for (const size_t columns : kColumns) {
    const size_t rows = 3, groups = kernels::divide_up(columns, 64);
    std::vector<float> a = test_rows(rows, columns, 30), b = test_rows(rows, columns, 30);
    a[0] = -1e30f;  // beyond what the exponential takes
    std::vector<float> sum = b, product(rows * columns);
    scalar.elementwise({kernels::Function::kAdd, sum.data(), a.data(), 0, a.size(), sum.data()});
    scalar.glu(
        {kernels::Function::kSilu, a.data(), b.data(), 0, 1, a.size(), product.data(), 0, false});
    const uint32_t n = narrow(columns);
    const PairParams params{n, n, n, n};
    test::Guarded<float> y(rows * columns), z(rows * columns);
    std::copy(b.begin(), b.end(), y.data());
    const metal_shim::Order order = metal_shim::Order::kForward;
    if (!test::run_kernel(Kernel::kAddRows, order, params, {a.data(), y.data()}, groups, rows) ||
        !test::run_kernel(Kernel::kSwigluRows, order, params, {a.data(), b.data(), z.data()},
                          groups, rows)) {
      return false;
    }
    if (!expect(y.intact() && test::equal_bits(y.values(), sum), "scalar's sum") ||
        !expect(z.intact() && test::equal_bits(z.values(), product), "scalar's SwiGLU")) {
      return false;
    }
  }
  return true;
}

const test::Case kCases[] = {
    {"norms", norms},       {"norm_in_place", norm_in_place}, {"quantization", quantization},
    {"rotation", rotation}, {"odd_numbers", odd_numbers},     {"embedding", embedding},
    {"pairs", pairs},
};

}  // namespace

int main(int argc, char** argv) { return test::run_cases(kCases, argc, argv); }
