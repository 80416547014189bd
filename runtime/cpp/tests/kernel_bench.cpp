// The speed of the linear kernels, beside what this machine can do: read memory, and multiply.
//
// usage: kernel_bench [VARIANT...]       one thread; about two seconds a variant

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kernels/cpu_features.h"
#include "kernels/variants.h"
#include "tests/kernel_problem.h"

namespace {

using namespace thimble::kernels;
using thimble::test::AlignedBuffer;
using thimble::test::Problem;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The shortest of a few runs, in seconds.
template <typename Run>
double shortest(Run run) {
  double best = 1e9;
  const double start = seconds();
  for (int i = 0; i < 3 || (i < 40 && seconds() - start < 0.35); ++i) {
    const double before = seconds();
    run();
    const double took = seconds() - before;
    best = took < best ? took : best;
  }
  return best;
}

void measure_read(const AlignedBuffer& memory) {
  volatile uint64_t sink = 0;
  const double took = shortest([&] {
    const uint64_t* words = reinterpret_cast<const uint64_t*>(memory.data());
    uint64_t sums[8] = {};
    for (size_t i = 0; i + 8 <= memory.size() / 8; i += 8)
      for (size_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    for (uint64_t sum : sums) sink = sink + sum;
  });
  std::printf("%-14s %-16s read           %6.1f GB/s\n", "memory", "", memory.size() / took * 1e-9);
}

constexpr size_t kOutputs = 8192, kColumns = 2048, kGroup = 32;

/// Copies of one matrix fill `memory`: as many bytes as a model has.
void measure_matvec(const Variant& variant, WeightFormat format, const char* format_name,
                    AlignedBuffer& memory) {
  for (size_t rows : {1, 2, 4, 8}) {
    Problem problem(format, rows, kOutputs, kColumns, kGroup, kPlainRows);
    LinearArgs args = problem.args();
    const size_t bytes = args.weight.bytes(), copies = memory.size() / bytes;
    for (size_t i = 0; i < copies; ++i)
      std::memcpy(memory.data() + i * bytes, args.weight.data, bytes);
    args.weight.data = memory.data();
    args.weight.rows *= copies;
    args.last_block *= copies;
    std::vector<float> y(rows * args.weight.rows);
    args.y = y.data();
    args.y_stride = args.weight.rows;
    const double took = shortest([&] { variant.matvec[static_cast<int>(format)](args); });
    std::printf("%-14s %-16s matvec %3zu rows %6.1f GB/s\n", variant.name, format_name, rows,
                args.weight.bytes() / took * 1e-9);
  }
}

void measure_matmul(const Variant& variant, WeightFormat format, const char* format_name) {
  for (size_t rows : {128, 512}) {
    Problem problem(format, rows, kOutputs, kColumns, kGroup, variant.tile);
    const LinearArgs args = problem.args();
    const double took = shortest([&] { variant.matmul[static_cast<int>(format)](args); });
    std::printf("%-14s %-16s matmul %3zu rows %6.1f GOPS\n", variant.name, format_name, rows,
                2.0 * rows * kOutputs * kColumns / took * 1e-9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  AlignedBuffer memory(size_t{640} << 20);
  std::memset(memory.data(), 1, memory.size());
  measure_read(memory);
  for (const Variant* variant : all_variants()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], variant->name) == 0;
    if (!wanted || (variant->required & ~cpu_features()) != 0) continue;
    if (argc == 1 && std::strcmp(variant->name, "scalar") == 0) continue;
    constexpr const char* kFormats[] = {"int4 two-level", "int4", "int8"};
    for (int format = 0; format < 3; ++format) {
      measure_matvec(*variant, static_cast<WeightFormat>(format), kFormats[format], memory);
      measure_matmul(*variant, static_cast<WeightFormat>(format), kFormats[format]);
    }
  }
  return 0;
}
