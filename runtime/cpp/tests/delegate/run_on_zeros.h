#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "delegate/cpu/executor.h"
#include "delegate/program/call_check.h"
#include "kernels/select/cpu_features.h"
#include "kernels/select/select.h"
#include "tests/kernels/problem.h"

namespace thimble::test {

/// A damaged program may ask for more than there is time or memory for.
inline constexpr size_t kMostWeightBytes = size_t{4} << 20;
inline constexpr size_t kMostFloats = size_t{1} << 22;
inline constexpr size_t kMostNumbers = size_t{1} << 18;  // of a row of every slot, or a sample
inline constexpr size_t kMostHeight = 8192;
inline constexpr size_t kMostScores = size_t{1} << 20;  // of a head
inline constexpr size_t kRows = 9;
inline constexpr size_t kSamples = 2;

/// Scores of a head in all attentions of whole samples.
inline size_t scores(const cpu::Program& program) {
  size_t count = 0;
  for (const cpu::Op& op : program.ops) {
    const auto* kind = std::get_if<cpu::SegmentAttentionOp>(&op.kind);
    if (kind == nullptr) continue;
    count += program.slots[kind->query].height * program.slots[kind->key].height;
  }
  return count;
}

inline bool is_small(const cpu::Program& program) {
  size_t bytes = 0, numbers = 0, height = 0;
  uint64_t halves = 0;
  for (const cpu::Weight& weight : program.weights) bytes += weight.packed(nullptr).bytes();
  for (const cpu::Adapter& adapter : program.adapters) halves += adapter.num_halves;
  for (const cpu::Slot& slot : program.slots) {
    numbers += slot.width * std::max<size_t>(slot.height, 1);
    height = std::max(height, slot.height);
  }
  return bytes <= kMostWeightBytes && numbers <= kMostNumbers && height <= kMostHeight &&
         program.num_floats <= kMostFloats && halves <= kMostFloats &&
         program.sample_tokens <= kMostHeight && scores(program) <= kMostScores;
}

/// A loaded program whose weights, inputs and tokens are zeros.
class ZeroModel {
 public:
  explicit ZeroModel(cpu::Program program) : floats_(program.num_floats) {
    std::vector<kernels::PackedWeight> weights;
    for (const cpu::Weight& weight : program.weights) {
      buffers_.push_back(std::make_unique<AlignedBuffer>(weight.packed(nullptr).bytes()));
      std::fill_n(buffers_.back()->data(), buffers_.back()->size(), 0);
      weights.push_back(weight.packed(buffers_.back()->data()));
    }
    std::vector<const uint16_t*> adapters;
    for (const cpu::Adapter& adapter : program.adapters) {
      adapters_.emplace_back(adapter.num_halves);
      adapters.push_back(adapters_.back().data());
    }
    const kernels::Variant& kernels =
        *kernels::select_variant(nullptr, kernels::cpu_features()).variant;
    auto executor = cpu::CpuExecutor::create(std::move(program), kernels, std::move(weights),
                                             floats_.data(), session_, std::move(adapters));
    if (executor.ok()) executor_ = std::move(*executor);
  }

  bool loaded() const { return executor_ != nullptr; }
  const cpu::Program& program() const { return executor_->whole_program(); }
  cpu::Session& session() { return *session_; }

  /// Runs a call of some rows from a position on, or of some samples; returns whether it could.
  bool run(size_t rows, int64_t start_pos = 0, const cpu::AskedSegments& asked = {}) {
    cpu::Call call = zeros(rows);
    if (program().by_sample) {
      call.segments.assign(rows, {0, 0, 1});
    } else {
      call.segments = {{0, start_pos, rows}};
    }
    return cpu::choose_segments(program(), *session_, asked, &call).ok() && run(call);
  }

  /// Runs a call of one sample that has half of the rows, where it may.
  bool run_shorter() {
    cpu::Call call = zeros(1);
    call.segments = {{0, 0, 1}};
    for (const uint32_t input : program().shorter) call.heights[input] /= 2;
    return run(call);
  }

 private:
  bool run(const cpu::Call& call) {
    return executor_->fit(call).ok() && executor_->check(call).ok() && executor_->run(call).ok();
  }

  cpu::Call zeros(size_t rows) {
    cpu::Call call;
    memory_.clear();
    tokens_.assign(program().tokens_of(rows), 0);
    call.rows = rows;
    call.tokens = tokens_.data();
    for (const cpu::Value& value : program().inputs) {
      const bool has_rows = value.role == cpu::Role::kRows;
      const cpu::Slot slot = has_rows ? program().slots[value.slot] : cpu::Slot{0};
      memory_.emplace_back(rows * slot.width * std::max<size_t>(slot.height, 1));
      call.inputs.push_back(has_rows ? memory_.back().data() : nullptr);
      call.heights.push_back(slot.height);
    }
    for (size_t i = 0; i < program().outputs.size(); ++i) {
      const size_t width = program().slots[program().outputs[i].slot].width;
      memory_.emplace_back(cpu::output_rows(program(), i, rows) * width);
      call.outputs.push_back(memory_.back().data());
    }
    return call;
  }

  std::vector<std::unique_ptr<AlignedBuffer>> buffers_;
  std::vector<std::vector<uint16_t>> adapters_;
  const std::vector<float> floats_;
  const std::shared_ptr<cpu::Session> session_ =
      std::make_shared<cpu::Session>(thimble_session_options{1, THIMBLE_CACHE_DEFAULT, 0});
  std::unique_ptr<cpu::CpuExecutor> executor_;
  std::vector<std::vector<float>> memory_;
  std::vector<int64_t> tokens_;
};

/// Segments of three rows: behind a call of kRows rows, those that attend to each other, at
/// positions of their own and with logits of each; or two of a program that keeps nothing.
inline Result<cpu::AskedSegments> three_rows(const cpu::Program& program,
                                             std::vector<float>* logits) {
  if (!program.keeps()) {
    const thimble_segment two[] = {{cpu::kNoCache, 0, 2, 0, nullptr, 0, nullptr},
                                   {cpu::kNoCache, 0, 1, 1, nullptr, 0, nullptr}};
    return cpu::read_segments(two, 2, nullptr, 0);
  }
  logits->resize(3 * program.slots[program.outputs.front().slot].width);
  const std::vector<int64_t> positions(3, kRows), ends(3, kRows + 3);
  const thimble_segment one = {0, kRows, 3, 3, positions.data(), 1, ends.data()};
  return cpu::read_segments(&one, 1, logits->data(), logits->size());
}

/// Runs a program on weights of zeros, in calls of each form that it takes; returns whether the
/// first could.
inline bool run_on_zeros(cpu::Program program) {
  ZeroModel model(std::move(program));
  if (!model.loaded()) return false;
  const bool ran = model.run(model.program().by_sample ? kSamples : kRows);
  if (!model.program().shorter.empty()) (void)model.run_shorter();
  std::vector<float> logits;
  const Result<cpu::AskedSegments> three = three_rows(model.program(), &logits);
  if (three.ok()) (void)model.run(3, model.program().keeps() ? kRows : 0, *three);
  if (model.session().truncate(kRows - 4).ok()) (void)model.run(1, kRows - 4);
  for (const cpu::Adapter& adapter : model.program().adapters) {
    if (model.session().use_adapter(adapter.name).ok()) (void)model.run(kRows);
  }
  return ran;
}

}  // namespace thimble::test
