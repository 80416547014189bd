#include "delegate/ops/positions.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"
#include "kernels/shared/embedding.h"

namespace thimble::cpu {

PositionsOp PositionsOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2)};
}

void PositionsOp::check(Checker* checker) const {
  if (!checker->has_slot(input) || !checker->has_weight(weight)) return;
  const Weight& matrix = checker->program().weights[weight];
  checker->has_slot(input, matrix.columns);
  checker->has_slot(output, matrix.columns);
  checker->has_rows_of({input}, output);
  checker->has_positions(input, matrix.rows);
}

void PositionsOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

WorkspaceNeeds PositionsOp::needs(const Program& program, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = program.weights[weight].columns * sizeof(float);
  return needs;
}

Work PositionsOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const kernels::PackedWeight& matrix = context.weights[weight];
  const size_t columns = context.program.weights[weight].columns;
  auto* added = reinterpret_cast<float*>(context.workspace.scratch(context.thread));
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    kernels::unpack_row(matrix, context.position(input, row), columns, added);
    context.kernels.elementwise({kernels::Function::kAdd, context.row(input, row), added, 0,
                                 columns, context.row(output, row)});
  }
  const size_t bytes = matrix.bytes() / matrix.rows + 2 * columns * sizeof(float);
  return context.work(rows.count * bytes, 0, rows.count);
}

}  // namespace thimble::cpu
