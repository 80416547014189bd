#include "delegate/ops/rotate.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

RotateOp RotateOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          read_floats(table.table(3)), read_floats(table.table(4))};
}

void RotateOp::check(Checker* checker) const {
  if (!checker->has_slot(input) || !checker->has_heads(input, num_heads)) return;
  const size_t width = checker->width(input), dim = width / num_heads;
  checker->has_slot(output, width);
  checker->has_rows_of({input}, output);
  if (!checker->check(dim % 2 == 0, "rotates heads of " + std::to_string(dim) + " numbers")) return;
  const size_t half = dim / 2, rows = cosines.length / half, original = checker->program().original;
  if (!checker->check(rows > original, "has no angles")) return;
  checker->has_floats(cosines, rows * half);
  checker->has_floats(sines, rows * half);
  checker->has_positions(input, rows - original);
}

void RotateOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work RotateOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input), dim = columns / num_heads;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count * num_heads, context.thread, context.threads());
  for (size_t i = part.first; i < part.last; ++i) {
    const size_t row = rows.first + i / num_heads, column = i % num_heads * dim;
    const float* from = context.row(input, row) + column;
    float* to = context.row(output, row) + column;
    if (to != from) std::copy_n(from, dim, to);
    context.rotate(to, 1, dim, cosines, sines, row);
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
