#include "delegate/ops/layer_norm.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

LayerNormOp LayerNormOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),   table.scalar<uint32_t>(1), read_floats(table.table(2)),
          read_floats(table.table(3)), table.scalar<float>(4),    table.scalar<uint32_t>(5)};
}

void LayerNormOp::check(Checker* checker) const {
  if (!checker->has_slot(input) || !checker->has_heads(input, num_heads)) return;
  const size_t width = checker->width(input);
  checker->has_slot(output, width);
  checker->has_optional_floats(weight, width / num_heads);
  checker->has_optional_floats(bias, width / num_heads);
  checker->has_eps(eps);
  checker->has_rows_of({input}, output);
}

void LayerNormOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work LayerNormOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input), each = columns / num_heads;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count * num_heads, context.thread, context.threads());
  for (size_t i = part.first; i < part.last; ++i) {
    const size_t row = rows.first + i / num_heads, column = i % num_heads * each;
    context.kernels.layer_norm({context.row(input, row) + column, context.numbers(weight),
                                context.numbers(bias), eps, each,
                                context.row(output, row) + column});
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
