#include "delegate/ops/columns.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

ColumnsOp ColumnsOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2)};
}

void ColumnsOp::check(Checker* checker) const {
  if (!checker->has_slot(output)) return;
  if (!checker->has_columns(input, first, checker->width(output))) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  checker->has_rows_of({input}, output);
}

void ColumnsOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work ColumnsOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(output);
  context.timer.begin(op.debug_id);
  const Part part = context.part(rows, columns);
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    std::copy_n(context.row(input, row) + first + part.columns.first, part.columns.size(),
                context.row(output, row) + part.columns.first);
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
