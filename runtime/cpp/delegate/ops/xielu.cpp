#include "delegate/ops/xielu.h"

#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

XieluOp XieluOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<float>(2),
          table.scalar<float>(3), table.scalar<float>(4)};
}

void XieluOp::check(Checker* checker) const {
  if (!checker->has_slot(input)) return;
  checker->has_slot(output, checker->width(input));
  for (const float number : {alpha_p, alpha_n, beta})
    checker->check(std::isfinite(number), "has the number " + std::to_string(number));
  checker->has_rows_of({input}, output);
}

void XieluOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work XieluOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input);
  context.timer.begin(op.debug_id);
  const Part part = context.part(rows, columns);
  const size_t first = part.columns.first;
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    context.kernels.xielu({context.row(input, row) + first, alpha_p, alpha_n, beta,
                           part.columns.size(), context.row(output, row) + first});
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
