#include "delegate/ops/recurrent.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {
namespace {

using kernels::Function;
using kernels::kBlockRows;

/// What a step reads of the one before; null: zeros.
struct Before {
  const float* hidden;
  const float* memory;
};

/// Some blocks of units on one thread.
class Units {
 public:
  Units(const RecurrentOp& op, Range blocks, OpContext& context)
      : kernels_(context.kernels),
        cell_(op.cell),
        each_(op.gates() * kBlockRows),
        first_(blocks.first),
        units_(context.weights[op.weight].columns),
        bias_(context.numbers(op.bias)),
        weight_(context.weights[op.weight]),
        gates_(reinterpret_cast<float*>(context.workspace.scratch(context.thread))) {
    weight_.data += first_ * op.gates() * weight_.layout().bytes;
    weight_.rows = blocks.size() * each_;
  }

  /// \param input of all units.
  /// \param output hidden numbers of all units, and behind them those of their memory.
  void step(const float* input, const Before& before, float* output) const {
    input += first_ * each_;
    const float* const start = cell_ != Cell::kGru ? input : bias_;
    if (start == nullptr) {
      std::fill_n(gates_, weight_.rows, 0.0f);
    } else {
      std::copy_n(start == bias_ ? start + first_ * each_ : start, weight_.rows, gates_);
    }
    if (before.hidden != nullptr) {
      kernels_.float_linear({before.hidden, units_, 1, weight_, 0, weight_.blocks(), gates_,
                             weight_.rows, nullptr, true});
    }
    for (size_t at = 0; at < weight_.rows; at += each_) {
      const size_t unit = first_ * kBlockRows + at / each_ * kBlockRows;
      const size_t n = std::min(kBlockRows, units_ - unit);
      const float* const hidden = before.hidden != nullptr ? before.hidden + unit : nullptr;
      const float* const memory = before.memory != nullptr ? before.memory + unit : nullptr;
      if (cell_ == Cell::kLstm) {
        remember(gates_ + at, n, memory, output + unit);
      } else if (cell_ == Cell::kGru) {
        update(gates_ + at, input + at, n, hidden, output + unit);
      } else {
        apply(cell_ == Cell::kRnnTanh ? Function::kTanh : Function::kRelu, gates_ + at, nullptr, n);
        std::copy_n(gates_ + at, n, output + unit);
      }
    }
  }

 private:
  void apply(Function function, float* x, const float* other, size_t n, float number = 0) const {
    kernels_.elementwise({function, x, other, number, n, x});
  }

  void remember(float* in, size_t n, const float* memory, float* output) const {
    float *const forget = in + kBlockRows, *const out = forget + kBlockRows;
    float* const candidate = out + kBlockRows;
    apply(Function::kSigmoid, in, nullptr, 3 * kBlockRows);
    apply(Function::kTanh, candidate, nullptr, kBlockRows);
    apply(Function::kMultiply, candidate, in, kBlockRows);
    if (memory != nullptr) {
      apply(Function::kMultiply, forget, memory, n);
      apply(Function::kAdd, candidate, forget, n);
    }
    std::copy_n(candidate, n, output + units_);
    apply(Function::kTanh, candidate, nullptr, n);
    apply(Function::kMultiply, candidate, out, n);
    std::copy_n(candidate, n, output);
  }

  /// \param reset what hidden numbers add to the gates.
  /// \param input what the row adds to them.
  void update(float* reset, const float* input, size_t n, const float* hidden,
              float* output) const {
    float *const update = reset + kBlockRows, *const candidate = update + kBlockRows;
    apply(Function::kAdd, reset, input, 2 * kBlockRows);
    apply(Function::kSigmoid, reset, nullptr, 2 * kBlockRows);
    apply(Function::kMultiply, candidate, reset, kBlockRows);
    apply(Function::kAdd, candidate, input + 2 * kBlockRows, kBlockRows);
    apply(Function::kTanh, candidate, nullptr, kBlockRows);
    float* const difference = reset;  // of the hidden numbers and the candidate
    std::copy_n(candidate, kBlockRows, difference);
    apply(Function::kScale, difference, nullptr, kBlockRows, -1);
    if (hidden != nullptr) apply(Function::kAdd, difference, hidden, n);
    apply(Function::kMultiply, difference, update, kBlockRows);
    apply(Function::kAdd, candidate, difference, kBlockRows);
    std::copy_n(candidate, n, output);
  }

  const kernels::Variant& kernels_;
  const Cell cell_;
  const size_t each_;  ///< gates of a block of units
  const size_t first_, units_;
  const float* const bias_;
  kernels::PackedWeight weight_;
  float* const gates_;
};

}  // namespace

RecurrentOp RecurrentOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),
          table.scalar<uint32_t>(1),
          table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3),
          table.scalar<uint32_t>(4),
          table.scalar<uint8_t>(5) != 0,
          table.scalar<uint8_t>(6) != 0,
          read_floats(table.table(7)),
          static_cast<Cell>(table.scalar<uint8_t>(8))};
}

void RecurrentOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_weight(weight)) return;
  if (!checker->check(cell <= Cell::kRnnRelu,
                      "has a cell of kind " + std::to_string(static_cast<int>(cell))))
    return;
  const Weight& matrix = checker->program().weights[weight];
  const size_t units = matrix.columns, all = gates() * kernels::round_up(units, kBlockRows);
  if (!checker->check(!matrix.quantized() && matrix.rows == all,
                      "wants a weight of " + std::to_string(all) + " rows of float32")) {
    return;
  }
  if (!checker->has_slot(input, all) ||
      !checker->has_slot(output, has_memory() ? 2 * units : units)) {
    return;
  }
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  checker->check(cell == Cell::kGru || !bias.present(), "has a bias that only a GRU has");
  checker->has_optional_floats(bias, all);
  if (stateful) {
    for (const uint32_t slot : {hidden, has_memory() ? memory : hidden}) {
      if (!checker->has_slot(slot, units)) return;
      checker->check(checker->height(slot) == 1, "has a state of several rows");
      checker->check(slot != output, "reads and writes slot " + std::to_string(slot));
    }
  }
  checker->has_rows_of({input}, output);
}

void RecurrentOp::walk(RowNeeds* rows) const {
  const Rows all = rows->computed_of_all(output);
  rows->reads(input, all);
  if (!stateful) return;
  rows->reads(hidden, all);
  if (has_memory()) rows->reads(memory, all);
}

WorkspaceNeeds RecurrentOp::needs(const Program& program, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = program.weights[weight].rows * sizeof(float);
  return needs;
}

Work RecurrentOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const kernels::PackedWeight& matrix = context.weights[weight];
  const size_t count = matrix.columns, height = op.height;
  const Range blocks =
      share(kernels::divide_up(count, kBlockRows), context.thread, context.threads());
  const Units units(*this, blocks, context);
  for (size_t i = 0; i < height; ++i) {
    const size_t step = reverse ? height - 1 - i : i;
    for (size_t first = rows.first; first < rows.first + rows.count; first += height) {
      Before before{nullptr, nullptr};
      if (i > 0) {
        before.hidden = context.row(output, first + (reverse ? step + 1 : step - 1));
        if (has_memory()) before.memory = before.hidden + count;
      } else if (stateful) {
        before.hidden = context.row(hidden, first / height);
        if (has_memory()) before.memory = context.row(memory, first / height);
      }
      if (blocks.size() > 0) {
        units.step(context.row(input, first + step), before, context.row(output, first + step));
      }
    }
    context.team.barrier();  // the next step reads all units
  }
  const size_t numbers = context.width(input) + context.width(output);
  return context.work(height * matrix.bytes() + rows.count * numbers * sizeof(float),
                      2 * rows.count * matrix.rows * count, rows.count);
}

}  // namespace thimble::cpu
