#include "delegate/ops/elementwise.h"

#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

using kernels::Function;

ElementwiseOp ElementwiseOp::read(const FlatbufferTable& table) {
  return {read_function(table, 0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3), table.scalar<float>(4)};
}

void ElementwiseOp::check(Checker* checker) const {
  if (!checker->check(kernels::is_function(function),
                      "has the unknown function " + std::to_string(static_cast<int>(function)))) {
    return;
  }
  if (!checker->has_slot(input)) return;
  const size_t width = checker->width(input);
  checker->has_slot(output, width);
  const bool wants_number = function == Function::kScale || function == Function::kSoftCap ||
                            function >= Function::kLeast;
  checker->check(!wants_number || std::isfinite(number),
                 "has the number " + std::to_string(number));
  checker->check(function != Function::kSoftCap || number > 0,
                 "has the soft cap " + std::to_string(number));
  if (!kernels::is_binary(function)) return checker->has_rows_of({input}, output);
  if (function != Function::kMultiply) {
    checker->has_slot(other, width);
  } else if (checker->has_slot(other)) {
    const size_t parts = checker->width(other);
    checker->check(parts > 0 && width % parts == 0,
                   "multiplies " + std::to_string(width) + " columns by " + std::to_string(parts));
  }
  checker->has_rows_of({input, other}, output);
}

void ElementwiseOp::walk(RowNeeds* rows) const {
  const Rows needed = rows->written(output);
  rows->reads(input, needed);
  if (kernels::is_binary(function)) rows->reads(other, needed);
}

Work ElementwiseOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input);
  const bool binary = kernels::is_binary(function);
  context.timer.begin(op.debug_id);
  if (binary && context.width(other) != columns) {
    multiply_parts(rows, context);
    return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
  }
  const Part part = context.part(rows, columns);
  const size_t first = part.columns.first;
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    context.kernels.elementwise({function, context.row(input, row) + first,
                                 binary ? context.row(other, row) + first : nullptr, number,
                                 part.columns.size(), context.row(output, row) + first});
  }
  const size_t moved = binary ? 3 : 2;
  return context.work(moved * rows.count * columns * sizeof(float), 0, rows.count);
}

void ElementwiseOp::multiply_parts(OpRows rows, OpContext& context) const {
  const size_t parts = context.width(other), each = context.width(input) / parts;
  const Range mine = share(rows.count * parts, context.thread, context.threads());
  for (size_t i = mine.first; i < mine.last; ++i) {
    const size_t row = rows.first + i / parts, part = i % parts;
    context.kernels.elementwise({Function::kScale, context.row(input, row) + part * each, nullptr,
                                 context.row(other, row)[part], each,
                                 context.row(output, row) + part * each});
  }
}

}  // namespace thimble::cpu
