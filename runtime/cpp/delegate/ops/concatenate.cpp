#include "delegate/ops/concatenate.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

ConcatenateOp ConcatenateOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint8_t>(3) != 0};
}

void ConcatenateOp::check(Checker* checker) const {
  if (!checker->is_by_sample()) return;
  if (!checker->has_slot(first) || !checker->has_slot(second)) return;
  const size_t width = checker->width(first), more = checker->width(second);
  if (!checker->has_slot(output, columns ? width + more : width)) return;
  checker->check(output != first && output != second,
                 "reads and writes slot " + std::to_string(output));
  if (columns) return checker->has_rows_of({first, second}, output);
  checker->has_slot(second, width);
  checker->has_height(output, checker->height(first) + checker->height(second));
}

void ConcatenateOp::walk(RowNeeds* rows) const {
  const Rows needed = rows->written(output);
  rows->reads(first, needed);
  rows->reads(second, needed);
}

Work ConcatenateOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t width = context.width(first), more = context.width(second);
  const size_t height = context.height(first), all = op.height;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    float* const to = context.row(output, row);
    if (columns) {
      std::copy_n(context.row(first, row), width, to);
      std::copy_n(context.row(second, row), more, to + width);
      continue;
    }
    const size_t sample = row / all, at = row % all;
    std::copy_n(at < height ? context.row(first, sample * height + at)
                            : context.row(second, sample * (all - height) + at - height),
                width, to);
  }
  return context.work(2 * rows.count * context.width(output) * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
