#include "delegate/ops/select_last.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

SelectLastOp SelectLastOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1)};
}

void SelectLastOp::check(Checker* checker) const {
  if (!checker->has_slot(input) || !checker->has_slot(output, checker->width(input))) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  checker->leaves_last_only(output);
}

void SelectLastOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work SelectLastOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input);
  context.timer.begin(op.debug_id);
  const Part part = context.part(rows, columns);
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    std::copy_n(context.row(input, row) + part.columns.first, part.columns.size(),
                context.row(output, row) + part.columns.first);
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
