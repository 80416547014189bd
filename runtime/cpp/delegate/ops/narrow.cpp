#include "delegate/ops/narrow.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

NarrowOp NarrowOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3)};
}

void NarrowOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input)) return;
  if (!checker->has_slot(output, checker->width(input))) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  const uint64_t last = first + uint64_t{step} * (checker->height(output) - 1);
  checker->check(last < checker->height(input), "reads row " + std::to_string(last) + " of " +
                                                    std::to_string(checker->height(input)));
}

void NarrowOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work NarrowOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input), height = context.height(input);
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    const size_t from = row / op.height * height + first + row % op.height * step;
    std::copy_n(context.row(input, from), columns, context.row(output, row));
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
