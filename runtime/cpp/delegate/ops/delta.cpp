#include "delegate/ops/delta.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {
namespace {

constexpr size_t kMostDim = size_t{1} << 12;  ///< of a head

/// One gated delta rule on one thread, which does all the work of its own key heads and of the
/// value heads that they serve, and waits for no other.
class Delta {
 public:
  Delta(const DeltaOp& op, OpRows rows, OpContext& context)
      : op_(op),
        context_(context),
        inputs_(*context.piece.caches->states[op.inputs]),
        state_(*context.piece.caches->states[op.state]),
        group_(op.num_value_heads / op.num_key_heads),
        matrix_(state_.geometry().delta.matrix()),
        before_(rows.count > 0 ? rows.first : context.piece.rows),
        heads_(share(op.num_key_heads, context.thread, context.threads())),
        first_number_(heads_.first * group_ * matrix_),
        numbers_(heads_.size() * group_ * matrix_),
        base_(state_.log().base_after(context.position(context.piece.rows))) {}

  void run() const {
    if (heads_.size() == 0) return;
    move_base(context_.position(0));
    for (size_t first = 0, count = 0; first < context_.piece.rows; first += count) {
      const size_t position = context_.position(first);
      const size_t alike = (first < before_ ? before_ : context_.piece.rows) - first;
      count = std::min(alike, state_.until_snapshot(position));
      if (position < base_) count = std::min(count, base_ - position);
      const size_t keys = op_.num_key_heads * op_.key_head_dim;
      convolve(0, op_.key_head_dim, first, count);
      convolve(keys, op_.key_head_dim, first, count);
      convolve(2 * keys, group_ * op_.value_head_dim, first, count);
      for (size_t head = heads_.first * group_; head < heads_.last * group_; ++head) {
        advance(head, first, count);
      }
      state_.take_snapshot(position + count, first_number_, numbers_);
      if (position + count == base_) copy_to_base();
    }
  }

 private:
  /// Moves the log's base, for a chunk from `start` on, unless the chunk passes it.
  void move_base(size_t start) const {
    const DeltaLog& log = state_.log();
    if (start == 0) {
      std::fill_n(state_.data() + first_number_, numbers_, 0.0f);
      copy_to_base();
    }
    const size_t before = log.base_after(start);
    if (before < base_ && base_ <= start) {
      log.replay(before, base_, heads_.first * group_, heads_.size() * group_, log.base());
    }
  }

  void copy_to_base() const {
    std::copy_n(state_.data() + first_number_, numbers_, state_.log().base() + first_number_);
  }

  /// Mixes the columns of this thread's heads from `column` on, `each` of a key head, in place.
  void convolve(size_t column, size_t each, size_t first, size_t count) const {
    const size_t width = inputs_.geometry().width, position = context_.position(first);
    column += heads_.first * each;
    float* x = context_.row(op_.qkv, first) + column;
    context_.kernels.convolve(
        {nullptr, nullptr, x, context_.stride(op_.qkv), count, heads_.size() * each, position,
         width, context_.numbers(op_.weight) + column, inputs_.geometry().rows + 1, nullptr,
         inputs_.data() + column, inputs_.geometry().history, x, context_.stride(op_.qkv)});
    inputs_.take_snapshot(position + count, column, heads_.size() * each);
  }

  /// The rows of one value head.
  void advance(size_t head, size_t first, size_t count) const {
    const float* qkv = context_.row(op_.qkv, first);
    const size_t key = head / group_ * op_.key_head_dim;
    const size_t keys = op_.num_key_heads * op_.key_head_dim;
    const size_t column = head * op_.value_head_dim;
    const size_t step = kernels::delta_step_size(op_.key_head_dim, op_.value_head_dim);
    context_.kernels.delta_rule(
        {qkv + key,
         qkv + keys + key,
         qkv + 2 * keys + column,
         context_.stride(op_.qkv),
         context_.row(op_.a, first) + head,
         context_.stride(op_.a),
         context_.row(op_.b, first) + head,
         context_.stride(op_.b),
         context_.numbers(op_.a_log)[head],
         context_.numbers(op_.dt_bias)[head],
         count,
         op_.key_head_dim,
         op_.value_head_dim,
         state_.data() + head * matrix_,
         first < before_ ? nullptr : context_.row(op_.output, first) + column,
         context_.stride(op_.output),
         reinterpret_cast<float*>(context_.workspace.scratch(context_.thread)),
         context_.position(first),
         context_.position(first) < base_ ? nullptr : state_.log().steps() + head * step,
         state_.geometry().delta.steps()});
  }

  const DeltaOp& op_;
  OpContext& context_;
  StateCache& inputs_;
  StateCache& state_;
  const size_t group_;                   ///< value heads of a key head
  const size_t matrix_;                  ///< floats of a value head's state
  const size_t before_;                  ///< the first row whose output is read
  const Range heads_;                    ///< of keys
  const size_t first_number_, numbers_;  ///< of their matrices
  const size_t base_;                    ///< position of the log's after the chunk
};

}  // namespace

DeltaOp DeltaOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),   table.scalar<uint32_t>(1),    table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3),   table.scalar<uint32_t>(4),    table.scalar<uint32_t>(5),
          table.scalar<uint32_t>(6),   table.scalar<uint32_t>(7),    table.scalar<uint32_t>(8),
          table.scalar<uint32_t>(9),   read_floats(table.table(10)), read_floats(table.table(11)),
          read_floats(table.table(12))};
}

void DeltaOp::check(Checker* checker) const {
  const size_t keys = num_key_heads, values = num_value_heads, dim = key_head_dim;
  if (!checker->check(
          keys >= 1 && values >= 1 && values <= kMostHeads && values % keys == 0 && dim >= 1 &&
              dim <= kMostDim && value_head_dim >= 1 && value_head_dim <= kMostDim,
          "has " + std::to_string(keys) + " heads of " + std::to_string(dim) + " for keys, " +
              std::to_string(values) + " of " + std::to_string(value_head_dim) + " for values") ||
      !checker->takes_state(inputs, kReturnRows) ||
      !checker->takes_matrices(state, {values, dim, value_head_dim})) {
    return;
  }
  const StateShape& kept = checker->program().states[inputs];
  const size_t mixed = 2 * keys * dim + values * value_head_dim;
  checker->check(kept.rows < kernels::kMostTaps && kept.width == mixed,
                 "keeps " + std::to_string(kept.rows) + " inputs of " + std::to_string(kept.width) +
                     " numbers");
  checker->has_slot(qkv, mixed);
  checker->has_slot(a, values);
  checker->has_slot(b, values);
  checker->has_slot(output, values * value_head_dim);
  checker->check(output != qkv && output != a && output != b,
                 "reads and writes slot " + std::to_string(output));
  checker->has_floats(weight, (kept.rows + 1) * mixed);
  checker->has_floats(a_log, values);
  checker->has_floats(dt_bias, values);
}

void DeltaOp::walk(RowNeeds* rows) const {
  rows->written(output);
  for (const uint32_t slot : {qkv, a, b}) rows->reads(slot, Rows::kAll);
  rows->runs_for_all();
}

WorkspaceNeeds DeltaOp::needs(const Program&, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = kernels::kDeltaRows * 2 * key_head_dim * sizeof(float);
  return needs;
}

Work DeltaOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  Delta(*this, rows, context).run();
  const size_t count = context.piece.rows, mixed = context.width(qkv);
  const size_t numbers = num_value_heads * size_t{key_head_dim} * value_head_dim;
  const size_t taps = context.piece.caches->states[inputs]->geometry().rows + 1;
  return context.work(
      2 * numbers * sizeof(float) + count * (2 * mixed + context.width(output)) * sizeof(float),
      count * (2 * taps * mixed + 6 * numbers), count);
}

}  // namespace thimble::cpu
