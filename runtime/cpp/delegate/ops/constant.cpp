#include "delegate/ops/constant.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"
#include "kernels/shared/embedding.h"

namespace thimble::cpu {

ConstantOp ConstantOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1)};
}

void ConstantOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_weight(weight)) return;
  const Weight& matrix = checker->program().weights[weight];
  if (!checker->has_slot(output, matrix.columns)) return;
  checker->has_height(output, matrix.rows);
}

void ConstantOp::walk(RowNeeds* rows) const { rows->written(output); }

Work ConstantOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const kernels::PackedWeight& matrix = context.weights[weight];
  const size_t columns = context.width(output);
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    kernels::unpack_row(matrix, row % op.height, columns, context.row(output, row));
  }
  const size_t bytes = matrix.bytes() / matrix.rows + columns * sizeof(float);
  return context.work(rows.count * bytes, 0, rows.count);
}

}  // namespace thimble::cpu
