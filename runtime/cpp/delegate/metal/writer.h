#pragma once

#include <initializer_list>
#include <vector>

#include "delegate/metal/dispatch.h"
#include "delegate/metal/params.h"
#include "delegate/metal/plan.h"
#include "delegate/ops/rows.h"

namespace thimble::metal {

/// Floats of a head's partial result in a split of attention: see kernels/attention_split.metal.
constexpr size_t kPartialFloats = THIMBLE_METAL_MOST_HEAD_DIM + 16 + 1;

/// Writes the dispatches of one operator for one chunk of a call's rows.
class Writer {
 public:
  Writer(const Plan& plan, const cpu::Op& op, const cpu::Chunk& chunk, size_t start_pos,
         std::vector<Dispatch>* dispatches)
      : plan_(plan),
        program_(*plan.program_),
        op_(op),
        chunk_(chunk),
        start_pos_(start_pos + chunk.first),
        dispatches_(*dispatches) {}

  void write(cpu::OpRows rows);

 private:
  void write(const cpu::EmbeddingOp& op, cpu::OpRows rows);
  void write(const cpu::NormOp& op, cpu::OpRows rows);
  void write(const cpu::LinearOp& op, cpu::OpRows rows);
  void write(const cpu::AttentionOp& op, cpu::OpRows rows);
  void write(const cpu::ElementwiseOp& op, cpu::OpRows rows);
  void write(const cpu::GluOp& op, cpu::OpRows rows);
  /// Kinds without kernels, which Plan::check() has refused.
  template <typename Kind>
  void write(const Kind&, cpu::OpRows) {}

  /// A linear's input: normalized and quantized, if the linear needs it.
  void prepare(const cpu::LinearOp& op, cpu::OpRows rows);
  /// Heads of keys and queries, and the cache.
  void prepare(const cpu::AttentionOp& op, cpu::OpRows rows);

  template <typename Params>
  void add(Kernel kernel, uint32_t debug_id, std::initializer_list<BufferRef> buffers,
           const Params& params, size_t groups_x, size_t groups_y);

  /// Row `row` of the chunk in a slot, from `column` on.
  BufferRef row(uint32_t slot, size_t row, size_t column = 0) const;
  BufferRef arena(size_t offset) const { return {Plan::kArena, offset}; }
  /// A piece of the floats; if it is absent, any bound buffer, which is not read.
  BufferRef floats(const cpu::Floats& piece) const;
  WeightParams weight_params(uint32_t weight) const;
  uint32_t width(uint32_t slot) const { return static_cast<uint32_t>(program_.slots[slot].width); }

  const Plan& plan_;
  const cpu::Program& program_;
  const cpu::Op& op_;
  const cpu::Chunk& chunk_;
  const size_t start_pos_;  ///< of the chunk
  std::vector<Dispatch>& dispatches_;
};

}  // namespace thimble::metal
