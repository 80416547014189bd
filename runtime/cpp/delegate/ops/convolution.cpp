#include "delegate/ops/convolution.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

ConvolutionOp ConvolutionOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2),
          read_floats(table.table(3)), read_floats(table.table(4))};
}

void ConvolutionOp::check(Checker* checker) const {
  if (!checker->takes_state(state, kReturnRows)) return;
  const StateShape& shape = checker->program().states[state];
  checker->check(shape.rows < kernels::kMostTaps,
                 "keeps " + std::to_string(shape.rows) + " rows of a state");
  checker->has_slot(input, 3 * shape.width);
  checker->has_slot(output, shape.width);
  checker->has_floats(weight, (shape.rows + 1) * shape.width);
  checker->has_optional_floats(bias, shape.width);
}

void ConvolutionOp::walk(RowNeeds* rows) const {
  rows->written(output);
  rows->reads(input, Rows::kAll);
  rows->runs_for_all();
}

Work ConvolutionOp::run(const Op& op, OpRows rows, OpContext& context) const {
  StateCache& kept = *context.piece.caches->states[state];
  const size_t width = kept.geometry().width, taps = kept.geometry().rows + 1;
  context.timer.begin(op.debug_id);
  // Each thread has its own columns, so that none waits for the rows before.
  const Range columns = share(width, kernels::kBlockRows, context.thread, context.threads());
  const float* numbers = context.numbers(bias);
  const size_t before = rows.count > 0 ? rows.first : context.piece.rows;  // without an output
  for (size_t first = 0, count = 0; first < context.piece.rows; first += count) {
    const bool is_read = first >= before;
    const size_t position = context.position(first);
    const size_t alike = (is_read ? context.piece.rows : before) - first;
    count = std::min(alike, kept.until_snapshot(position));
    const float* parts = context.row(input, first) + columns.first;
    context.kernels.convolve(
        {parts, parts + width, parts + 2 * width, context.stride(input), count, columns.size(),
         position, width, context.numbers(weight) + columns.first, taps,
         numbers == nullptr ? nullptr : numbers + columns.first, kept.data() + columns.first,
         kept.geometry().history, is_read ? context.row(output, first) + columns.first : nullptr,
         context.stride(output)});
    kept.take_snapshot(position + count, columns.first, columns.size());
  }
  return context.work(4 * context.piece.rows * width * sizeof(float), 2 * taps * width * rows.count,
                      context.piece.rows);
}

}  // namespace thimble::cpu
