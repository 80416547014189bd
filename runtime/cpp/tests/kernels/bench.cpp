// The speed of the linear kernels, beside what this machine can do: read memory, and multiply.
//
// usage: kernel_bench [VARIANT...]       one thread; about two seconds a variant

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "bench/limits/limits.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/variants.h"
#include "tests/kernels/problem.h"

namespace {

using namespace thimble::kernels;
using thimble::bench::Limits;
using thimble::test::AlignedBuffer;
using thimble::test::Problem;

/// Of this process's own time, which other processes disturb less than the clock on the wall.
double seconds() {
#if defined(__wasi__)  // which has no other clock
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
#else
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
#endif
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

/// Of a CPU with `features`.
void measure_limits(uint32_t features, const AlignedBuffer& memory) {
  const Limits limits = thimble::bench::limits(features);
  volatile uint64_t sink = 0;
  if (limits.read != nullptr) {
    const double took = shortest([&] { sink = limits.read(memory.data(), memory.size()); });
    std::printf("%-31s read            %6.1f GB/s\n", "limit", memory.size() / took * 1e-9);
  }
  constexpr size_t kLoops = 300000;
  for (const auto& probe :
       {std::pair{limits.multiply, "limit"}, {limits.multiply_cached, "limit, operands cached"}}) {
    if (probe.first == nullptr) continue;
    const double took = shortest([&] { sink = probe.first(kLoops); });
    std::printf("%-31s %-15s %6.1f GOPS\n", probe.second, limits.unit,
                kLoops * limits.operations / took * 1e-9);
  }
}

constexpr size_t kOutputs = 8192, kColumns = 2048, kGroup = 32;

/// Copies of one matrix fill `memory`: as many bytes as a model has.
void measure_matvec(const Variant& variant, WeightFormat format, const char* format_name,
                    AlignedBuffer& memory) {
  for (size_t rows : {1, 2, 4, 8}) {
    Problem problem(format, rows, kOutputs, kColumns, kGroup, matvec_tile(rows));
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
    std::printf("%-14s %-16s matvec %3zu rows %7.1f GB/s\n", variant.name, format_name, rows,
                args.weight.bytes() / took * 1e-9);
  }
}

/// The shapes of an MLP's two matrices; the wide one writes a few blocks of outputs at a time, as
/// SwiGLU takes them.
void measure_matmul(const Variant& variant, WeightFormat format, const char* format_name) {
  constexpr size_t kBlocksAtOnce = 16;
  for (const auto& shape : {std::pair{kOutputs, kColumns}, {kColumns, kOutputs}}) {
    const size_t outputs = shape.first, columns = shape.second;
    for (size_t rows : {128, 256, 512}) {
      Problem problem(format, rows, outputs, columns, kGroup, variant.tile);
      LinearArgs args = problem.args();
      AlignedBuffer y(rows * outputs * sizeof(float));
      args.y = reinterpret_cast<float*>(y.data());
      const size_t at_once = outputs > columns ? kBlocksAtOnce : args.last_block;
      args.y_stride = at_once * kBlockRows;
      const size_t calls = args.last_block / at_once, bytes = args.weight.bytes() / calls;
      const uint8_t* weights = args.weight.data;
      args.weight.rows = args.y_stride;
      args.last_block = at_once;
      const double took = shortest([&] {
        for (size_t i = 0; i < calls; ++i) {
          args.weight.data = weights + i * bytes;
          variant.matmul[static_cast<int>(format)](args);
        }
      });
      std::printf("%-14s %-16s matmul %zu x %zu, %3zu rows %7.1f GOPS\n", variant.name, format_name,
                  outputs, columns, rows, 2.0 * rows * outputs * columns / took * 1e-9);
    }
  }
}

/// Heads of 64, four to a key/value head: a step at depth 4096 and a prefill of 512.
void measure_attention(const Variant& variant, CacheType type, const char* name) {
  constexpr size_t kHeadDim = 64, kHeads = 4, kDepth = 4096, kTokens = 512;
  AlignedBuffer keys(key_cache_bytes(type, kDepth, kHeadDim));
  AlignedBuffer values(value_cache_bytes(type, kDepth, kHeadDim));
  AlignedBuffer scratch(attention_scratch_size(kHeadDim) * sizeof(float));
  std::memset(keys.data(), 0x2C, keys.size());
  std::memset(values.data(), 0x2C, values.size());
  std::vector<float> q(kTokens * kHeads * kHeadDim, 0.1f), out(q.size());
  AttentionArgs args{};
  args.q = q.data();
  args.q_stride = args.out_stride = kHeads * kHeadDim;
  args.heads = kHeads;
  args.head_dim = kHeadDim;
  args.scale = 0.125f;
  args.type = type;
  args.keys = keys.data();
  args.values = values.data();
  args.out = out.data();
  args.scratch = reinterpret_cast<float*>(scratch.data());
  args.tokens = 1;
  args.start_pos = kDepth - 1;
  const double step = shortest([&] { variant.attention(args); });
  std::printf("%-14s attention, %-9s at depth %zu  %6.1f us, %5.1f GB/s\n", variant.name, name,
              kDepth, step * 1e6, (keys.size() + values.size()) / step * 1e-9);
  args.tokens = kTokens;
  args.start_pos = 0;
  const double prefill = shortest([&] { variant.attention(args); });
  std::printf("%-14s attention, %-9s of %zu rows    %6.1f GOPS\n", variant.name, name, kTokens,
              2.0 * kTokens * kTokens * kHeads * kHeadDim / prefill * 1e-9);
}

bool runs_here(const Variant& variant) { return (variant.required & ~cpu_features()) == 0; }

// Whether this processor has the kernels of that name; else says which it has.
bool can_measure(const char* name) {
  for (const Variant* variant : all_variants()) {
    if (runs_here(*variant) && std::strcmp(name, variant->name) == 0) return true;
  }
  std::fprintf(stderr, "kernel_bench: this processor has no kernels %s; name some of:", name);
  for (const Variant* variant : all_variants()) {
    if (runs_here(*variant)) std::fprintf(stderr, " %s", variant->name);
  }
  std::fprintf(stderr, "\n");
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!can_measure(argv[i])) return 2;
  }
  AlignedBuffer memory(size_t{640} << 20);
  std::memset(memory.data(), 1, memory.size());
  for (const Variant* variant : all_variants()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], variant->name) == 0;
    if (!wanted || !runs_here(*variant)) continue;
    if (argc == 1 && std::strcmp(variant->name, "scalar") == 0) continue;
    measure_limits(variant->required, memory);
    measure_attention(*variant, CacheType::kFloat16, "float16");
    measure_attention(*variant, CacheType::kInt8, "int8");
    measure_attention(*variant, CacheType::kInt4, "int4");
    measure_attention(*variant, CacheType::kInt8Int4, "int8-int4");
    constexpr const char* kNames[] = {"int4 two-level", "int5 two-level", "int6 two-level",
                                      "int4",           "int8",           "int8 groups",
                                      nullptr,          "int2 two-level", "int3 two-level"};
    for (size_t format = 0; format < kFormats; ++format) {
      if (kNames[format] == nullptr) continue;
      measure_matvec(*variant, static_cast<WeightFormat>(format), kNames[format], memory);
      measure_matmul(*variant, static_cast<WeightFormat>(format), kNames[format]);
    }
  }
  return 0;
}
