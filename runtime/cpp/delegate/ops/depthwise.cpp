#include "delegate/ops/depthwise.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

using kernels::DepthwiseTap;

DepthwiseOp DepthwiseOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),   table.scalar<uint32_t>(1), read_floats(table.table(2)),
          read_floats(table.table(3)), read_function(table, 4),   Window::read(table, 5)};
}

void DepthwiseOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input)) return;
  const size_t width = checker->width(input);
  if (!checker->has_slot(output, width)) return;
  window.check(output, checker);
  checker->check(checker->height(input) == window.size(),
                 "has a picture of " + std::to_string(window.size()) + " numbers");
  checker->has_floats(weight, static_cast<size_t>(window.taps()) * width);
  checker->has_optional_floats(bias, width);
  if (activation != kernels::Function::kAdd) checker->has_activation(activation);
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
}

void DepthwiseOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

WorkspaceNeeds DepthwiseOp::needs(const Program&, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = static_cast<size_t>(window.taps()) * sizeof(DepthwiseTap);
  return needs;
}

void DepthwiseOp::run_windows(size_t sample, size_t y, Range across, OpContext& context) const {
  const Side &down = window.vertical, &along = window.horizontal;
  const size_t columns = context.width(input), stride = context.stride(input);
  const Range lines = down.inside(y), inside = along.inside(across.first);
  const size_t line_size = size_t{along.size} * stride;
  auto* const taps = reinterpret_cast<DepthwiseTap*>(context.workspace.scratch(context.thread));
  size_t count = 0;
  for (size_t line = lines.first; line < lines.last; ++line) {
    for (size_t tap = inside.first; tap < inside.last; ++tap) {
      taps[count++] = {down.place(y, line) * line_size + along.place(across.first, tap) * stride,
                       (line * along.kernel + tap) * columns};
    }
  }
  const size_t row = (sample * down.output + y) * along.output + across.first;
  context.kernels.depthwise({context.row(input, sample * window.size()), along.stride * stride,
                             taps, count, context.numbers(weight), context.numbers(bias),
                             activation, across.size(), columns, context.row(output, row),
                             context.stride(output)});
}

Work DepthwiseOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const Side &down = window.vertical, &along = window.horizontal;
  const size_t first = rows.first / along.output, lines = rows.count / along.output;
  const Range part = share(lines, context.thread, context.threads());
  for (size_t line = first + part.first; line < first + part.last; ++line) {
    Range across{0, 0};
    while (across.first < along.output) {
      const Range inside = along.inside(across.first);
      across.last = across.first + 1;
      // Beside the picture's ends, all windows are whole.
      while (inside.size() == along.kernel && across.last < along.output &&
             along.inside(across.last).size() == along.kernel) {
        ++across.last;
      }
      run_windows(line / down.output, line % down.output, across, context);
      across.first = across.last;
    }
  }
  const size_t columns = context.width(output);
  const size_t read = rows.count / window.outputs() * window.size();
  return context.work((read + rows.count) * columns * sizeof(float),
                      2 * rows.count * columns * window.taps(), rows.count);
}

}  // namespace thimble::cpu
