#include "delegate/ops/glu.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

GluOp GluOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          read_function(table, 3)};
}

void GluOp::check(Checker* checker) const {
  checker->has_activation(activation);
  if (!checker->has_slot(gate)) return;
  checker->has_slot(up, checker->width(gate));
  checker->has_slot(output, checker->width(gate));
  checker->has_rows_of({gate, up}, output);
}

void GluOp::walk(RowNeeds* rows) const {
  const Rows needed = rows->written(output);
  rows->reads(gate, needed);
  rows->reads(up, needed);
}

Work GluOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(gate);
  context.timer.begin(op.debug_id);
  const Part part = context.part(rows, columns);
  const size_t first = part.columns.first;
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    context.kernels.glu({activation, context.row(gate, row) + first, context.row(up, row) + first,
                         0, 1, part.columns.size(), context.row(output, row) + first, 0, false});
  }
  return context.work(3 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
