#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "delegate/cpu/executor.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/kernels/problem.h"

namespace thimble::test {

/// A damaged program may ask for more than there is time or memory for.
inline constexpr size_t kMostWeightBytes = size_t{4} << 20;
inline constexpr size_t kMostFloats = size_t{1} << 22;
inline constexpr size_t kMostWidth = size_t{1} << 16;
inline constexpr size_t kRows = 9;

inline bool is_small(const cpu::Program& program) {
  size_t bytes = 0, widths = 0;
  for (const cpu::Weight& weight : program.weights) bytes += weight.packed(nullptr).bytes();
  for (const cpu::Slot& slot : program.slots) widths += slot.width;
  return bytes <= kMostWeightBytes && widths <= kMostWidth && program.num_floats <= kMostFloats;
}

/// Runs a program once, on weights of zeros; returns whether it could.
inline bool run_once(cpu::Program program) {
  std::vector<std::unique_ptr<AlignedBuffer>> buffers;
  std::vector<kernels::PackedWeight> weights;
  for (const cpu::Weight& weight : program.weights) {
    buffers.push_back(std::make_unique<AlignedBuffer>(weight.packed(nullptr).bytes()));
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

}  // namespace thimble::test
