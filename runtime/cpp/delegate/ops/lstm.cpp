#include "delegate/ops/lstm.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {
namespace {

using kernels::Function;
using kernels::kBlockRows;

constexpr size_t kGates = 4;
constexpr size_t kBlockGates = kGates * kBlockRows;

/// What a step reads of the one before; null: zeros.
struct Before {
  const float* hidden;
  const float* cell;
};

/// Some blocks of units on one thread.
class Units {
 public:
  Units(const LstmOp& op, Range blocks, OpContext& context)
      : kernels_(context.kernels),
        first_(blocks.first * kBlockRows),
        count_(context.width(op.output) / 2),
        weight_(context.weights[op.weight]),
        gates_(reinterpret_cast<float*>(context.workspace.scratch(context.thread))) {
    weight_.data += blocks.first * kGates * weight_.layout().bytes;
    weight_.rows = blocks.size() * kBlockGates;
  }

  /// \param input of all units.
  /// \param output hidden numbers of all units, and behind them those of their cells.
  void step(const float* input, const Before& before, float* output) const {
    std::copy_n(input + first_ * kGates, weight_.rows, gates_);
    if (before.hidden != nullptr) {
      kernels_.float_linear({before.hidden, count_, 1, weight_, 0, weight_.blocks(), gates_,
                             weight_.rows, nullptr, true});
    }
    float* gates = gates_;
    for (size_t unit = first_; unit < first_ + weight_.rows / kGates; unit += kBlockRows) {
      finish(gates, std::min(kBlockRows, count_ - unit),
             before.cell != nullptr ? before.cell + unit : nullptr, output + unit);
      gates += kBlockGates;
    }
  }

 private:
  void apply(Function function, float* x, const float* other, size_t n) const {
    kernels_.elementwise({function, x, other, 0, n, x});
  }

  void finish(float* in, size_t n, const float* cell, float* output) const {
    float *const forget = in + kBlockRows, *const out = forget + kBlockRows;
    float* const candidate = out + kBlockRows;
    apply(Function::kSigmoid, in, nullptr, 3 * kBlockRows);
    apply(Function::kTanh, candidate, nullptr, kBlockRows);
    apply(Function::kMultiply, candidate, in, kBlockRows);
    if (cell != nullptr) {
      apply(Function::kMultiply, forget, cell, n);
      apply(Function::kAdd, candidate, forget, n);
    }
    std::copy_n(candidate, n, output + count_);
    apply(Function::kTanh, candidate, nullptr, n);
    apply(Function::kMultiply, candidate, out, n);
    std::copy_n(candidate, n, output);
  }

  const kernels::Variant& kernels_;
  const size_t first_, count_;
  kernels::PackedWeight weight_;
  float* const gates_;
};

}  // namespace

LstmOp LstmOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),    table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3),    table.scalar<uint32_t>(4), table.scalar<uint8_t>(5) != 0,
          table.scalar<uint8_t>(6) != 0};
}

void LstmOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_weight(weight)) return;
  const Weight& matrix = checker->program().weights[weight];
  const size_t units = matrix.columns, gates = kGates * kernels::round_up(units, kBlockRows);
  if (!checker->check(!matrix.quantized() && matrix.rows == gates,
                      "wants a weight of " + std::to_string(gates) + " rows of float32")) {
    return;
  }
  if (!checker->has_slot(input, gates) || !checker->has_slot(output, 2 * units)) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  if (stateful) {
    for (const uint32_t slot : {hidden, cell}) {
      if (!checker->has_slot(slot, units)) return;
      checker->check(checker->height(slot) == 1, "has a state of several rows");
      checker->check(slot != output, "reads and writes slot " + std::to_string(slot));
    }
  }
  checker->has_rows_of({input}, output);
}

void LstmOp::walk(RowNeeds* rows) const {
  const Rows all = rows->computed_of_all(output);
  rows->reads(input, all);
  if (!stateful) return;
  rows->reads(hidden, all);
  rows->reads(cell, all);
}

WorkspaceNeeds LstmOp::needs(const Program& program, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = program.weights[weight].rows * sizeof(float);
  return needs;
}

Work LstmOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const size_t count = context.width(output) / 2, height = op.height;
  const Range blocks =
      share(kernels::divide_up(count, kBlockRows), context.thread, context.threads());
  const Units units(*this, blocks, context);
  for (size_t i = 0; i < height; ++i) {
    const size_t step = reverse ? height - 1 - i : i;
    for (size_t first = rows.first; first < rows.first + rows.count; first += height) {
      Before before{nullptr, nullptr};
      if (i > 0) {
        before.hidden = context.row(output, first + (reverse ? step + 1 : step - 1));
        before.cell = before.hidden + count;
      } else if (stateful) {
        before = {context.row(hidden, first / height), context.row(cell, first / height)};
      }
      if (blocks.size() > 0) {
        units.step(context.row(input, first + step), before, context.row(output, first + step));
      }
    }
    context.team.barrier();  // the next step reads all units
  }
  const kernels::PackedWeight& matrix = context.weights[weight];
  const size_t numbers = context.width(input) + context.width(output);
  return context.work(height * matrix.bytes() + rows.count * numbers * sizeof(float),
                      2 * rows.count * matrix.rows * count, rows.count);
}

}  // namespace thimble::cpu
