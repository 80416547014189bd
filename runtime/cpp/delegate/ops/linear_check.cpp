#include "delegate/ops/checker.h"
#include "delegate/ops/linear.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {
namespace {

using kernels::kBlockRows;

/// Of the columns of a part of a row, as FloatLinearArgs wants them.
constexpr size_t kPartStep = 4;

/// Whether `before` is a linear that prepared the same input in the same way.
bool is_prepared(const LinearOp& op, const Op* before, const std::vector<Weight>& weights) {
  const LinearOp* linear = before != nullptr ? std::get_if<LinearOp>(&before->kind) : nullptr;
  if (linear == nullptr || linear->weight >= weights.size()) return false;
  const Weight& mine = weights[op.weight];
  const Weight& other = weights[linear->weight];
  return linear->input == op.input && linear->last_row == op.last_row &&
         linear->norm.offset == op.norm.offset && linear->norm.length == op.norm.length &&
         linear->norm_eps == op.norm_eps && linear->rotated == op.rotated &&
         mine.quantized() == other.quantized() &&
         mine.packed(nullptr).columns == other.packed(nullptr).columns &&
         mine.packed(nullptr).input_group() == other.packed(nullptr).input_group();
}

/// Of a convolution.
void check_window(const LinearOp& op, const Weight& matrix, Checker* checker) {
  if (!checker->is_by_sample()) return;
  op.window.check(op.output, checker);
  const size_t width = checker->width(op.input);
  checker->check(checker->height(op.input) == op.window.size(),
                 "has a picture of " + std::to_string(op.window.size()) + " numbers");
  checker->check(width % kPartStep == 0 && matrix.columns == width * op.window.taps(),
                 "has windows of " + std::to_string(width) + " channels");
  checker->check(!matrix.quantized() && !op.norm.present() && op.rotated == 0 &&
                     op.low_rank.empty() && !op.gated && !op.last_row && !op.prepared,
                 "has windows of what it prepares");
}

}  // namespace

LinearOp LinearOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),      table.scalar<uint32_t>(1),
          table.scalar<uint32_t>(2),      read_floats(table.table(3)),
          read_floats(table.table(4)),    table.scalar<float>(5),
          table.scalar<uint8_t>(6) != 0,  read_function(table, 7),
          table.scalar<uint8_t>(8) != 0,  table.scalar<uint8_t>(9) != 0,
          table.scalar<uint8_t>(10) != 0, read_low_rank(table.tables(11)),
          table.scalar<uint32_t>(12),     Window::read(table, 13)};
}

void LinearOp::check(Checker* checker) const {
  if (!checker->has_weight(weight)) return;
  const Weight& matrix = checker->program().weights[weight];
  if (!checker->has_slot(input) || !checker->has_slot(output)) return;
  if (convolves()) {
    check_window(*this, matrix, checker);
  } else if (!checker->has_slot(input, matrix.columns)) {
    return;
  }
  const size_t width = checker->width(output);
  const size_t rows = gated ? 2 * kernels::round_up(width, kBlockRows) : width;
  checker->check(matrix.rows == rows, "wants a weight of " + std::to_string(rows) +
                                          " rows, and has " + std::to_string(matrix.rows));
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  if (gated || activates()) checker->has_activation(activation);
  checker->check(!activates() || (!accumulate && low_rank.empty()),
                 "activates what it adds, or what adapters change");
  checker->has_optional_floats(bias, matrix.rows);
  checker->has_optional_floats(norm, matrix.columns);
  checker->has_eps(norm_eps);
  check_low_rank(low_rank, matrix.columns, gated ? width : rows, gated, checker);
  checker->has_blocks(rotated, matrix);
  if (!convolves()) {
    last_row ? checker->leaves_last_only(output) : checker->has_rows_of({input}, output);
  }
  checker->check(!prepared || is_prepared(*this, checker->before(), checker->program().weights),
                 "wants its input prepared, which no linear before did");
}

void LinearOp::walk(RowNeeds* rows) const {
  rows->reads(input, accumulate ? rows->updated(output) : rows->written(output));
  if (prepared) rows->finds_prepared();
}

}  // namespace thimble::cpu
