// delegate_damage_test BLOB ROUNDS: reads damaged copies of a CPU delegate's program and runs those
// that read, on weights of zeros. Whatever the damage, a sentence or some numbers come out; with
// sanitizers on, a read outside the copy or outside a weight ends the program.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "delegate/cpu/executor.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/binary_requests.h"
#include "tests/kernels/problem.h"

namespace thimble {
namespace {

/// A damaged program may ask for more than there is time or memory for.
constexpr size_t kMostWeightBytes = size_t{4} << 20;
constexpr size_t kMostFloats = size_t{1} << 22;
constexpr size_t kMostWidth = size_t{1} << 16;
constexpr size_t kRows = 9;

bool is_small(const cpu::Program& program) {
  size_t bytes = 0, widths = 0;
  for (const cpu::Weight& weight : program.weights) bytes += weight.packed(nullptr).bytes();
  for (const cpu::Slot& slot : program.slots) widths += slot.width;
  return bytes <= kMostWeightBytes && widths <= kMostWidth && program.num_floats <= kMostFloats;
}

/// Runs a program once; returns whether it could.
bool run_once(cpu::Program program) {
  std::vector<std::unique_ptr<test::AlignedBuffer>> buffers;
  std::vector<kernels::PackedWeight> weights;
  for (const cpu::Weight& weight : program.weights) {
    buffers.push_back(std::make_unique<test::AlignedBuffer>(weight.packed(nullptr).bytes()));
    std::fill_n(buffers.back()->data(), buffers.back()->size(), 0);
    weights.push_back(weight.packed(buffers.back()->data()));
  }
  const std::vector<float> floats(program.num_floats);
  const kernels::Variant& kernels =
      *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
  auto executor = cpu::CpuExecutor::create(
      std::move(program), kernels, std::move(weights), floats.data(),
      std::make_shared<cpu::Session>(thimble_session_options{1, THIMBLE_CACHE_DEFAULT, 0}));
  if (!executor.ok()) return false;
  const cpu::Program& loaded = (*executor)->program();
  const std::vector<int64_t> tokens(kRows, 0);
  std::vector<std::vector<float>> memory;
  cpu::Call call;
  call.segments = {{0, 0, kRows}};
  call.rows = kRows;
  call.tokens = tokens.data();
  for (const cpu::Value& value : loaded.inputs) {
    memory.emplace_back(kRows *
                        (value.role == cpu::Role::kRows ? loaded.slots[value.slot].width : 0));
    call.inputs.push_back(value.role == cpu::Role::kRows ? memory.back().data() : nullptr);
  }
  for (size_t i = 0; i < loaded.outputs.size(); ++i) {
    const size_t rows = cpu::output_rows(loaded, i, kRows);
    memory.emplace_back(rows * loaded.slots[loaded.outputs[i].slot].width);
    call.outputs.push_back(memory.back().data());
  }
  return (*executor)->check(call).ok() && (*executor)->run(call).ok();
}

void damage(std::vector<uint8_t>* data, std::mt19937* chance) {
  const auto below = [chance](size_t limit) { return (*chance)() % limit; };
  if (below(16) == 0) {
    data->resize(below(data->size()));
    return;
  }
  constexpr uint32_t kHostile[] = {0, 1, 2, 16, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF};
  for (size_t i = 0; i <= below(3); ++i) {
    const size_t at = below(data->size());
    const uint32_t word = below(2) == 0 ? kHostile[below(std::size(kHostile))] : (*chance)();
    const size_t width = below(2) == 0 ? 1 : std::min<size_t>(4, data->size() - at);
    for (size_t byte = 0; byte < width; ++byte) {
      (*data)[at + byte] = static_cast<uint8_t>(word >> (8 * byte));
    }
  }
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: delegate_damage_test BLOB ROUNDS\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> whole = read_file(argv[1]);
  std::mt19937 chance(7);
  int ran = 0, refused = 0;
  for (int round = std::atoi(argv[2]); round > 0; --round) {
    std::vector<uint8_t> copy = whole;
    damage(&copy, &chance);
    // An allocation of exactly this size, so that a sanitizer sees its end.
    const auto exact = std::make_unique<uint8_t[]>(copy.size());
    std::copy(copy.begin(), copy.end(), exact.get());
    Result<cpu::Program> program = cpu::read_program(exact.get(), copy.size());
    refused += program.ok() ? 0 : 1;
    if (!program.ok() || !is_small(*program)) continue;
    ran += run_once(std::move(*program)) ? 1 : 0;
  }
  std::fprintf(stderr, "%d damaged programs ran, %d were refused\n", ran, refused);
  return ran > 0 && refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
