#include "delegate/ops/affine.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

using kernels::Function;

AffineOp AffineOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), read_floats(table.table(2)),
          read_floats(table.table(3))};
}

void AffineOp::check(Checker* checker) const {
  if (!checker->has_slot(input)) return;
  const size_t width = checker->width(input);
  checker->has_slot(output, width);
  checker->has_optional_floats(weight, width);
  checker->has_optional_floats(bias, width);
  checker->has_rows_of({input}, output);
}

void AffineOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work AffineOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input);
  context.timer.begin(op.debug_id);
  const Part part = context.part(rows, columns);
  const size_t first = part.columns.first, count = part.columns.size();
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    const float* from = context.row(input, row) + first;
    float* const to = context.row(output, row) + first;
    const auto apply = [&](Function function, const Floats& floats) {
      if (!floats.present()) return;
      context.kernels.elementwise({function, from, context.numbers(floats) + first, 0, count, to});
      from = to;
    };
    apply(Function::kMultiply, weight);
    apply(Function::kAdd, bias);
    if (from != to) std::copy_n(from, count, to);
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
