#include "delegate/ops/sample_norm.h"

#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

/// The sums of rows, each computed by any thread, added by each in one order.
class RowSums {
 public:
  RowSums(uint32_t slot, size_t rows, OpContext& context)
      : slot_(slot),
        rows_(rows),
        context_(context),
        sums_(reinterpret_cast<float*>(context.workspace.shared())) {}

  /// Of the numbers less `shift`, and of their squares.
  void add(float shift, double totals[2]) {
    const Range part = share(rows_, context_.thread, context_.threads());
    for (size_t row = part.first; row < part.last; ++row) {
      context_.kernels.moments(context_.row(slot_, row), context_.width(slot_), shift,
                               sums_ + 2 * row);
    }
    context_.team.barrier();
    totals[0] = totals[1] = 0;
    for (size_t i = 0; i < 2 * rows_; ++i) totals[i % 2] += sums_[i];
    context_.team.barrier();  // before the next ones are written
  }

 private:
  const uint32_t slot_;
  const size_t rows_;
  OpContext& context_;
  float* const sums_;
};

}  // namespace

SampleNormOp SampleNormOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), read_floats(table.table(2)),
          read_floats(table.table(3)), table.scalar<float>(4)};
}

void SampleNormOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input)) return;
  const size_t width = checker->width(input);
  checker->has_slot(output, width);
  checker->has_optional_floats(weight, width);
  checker->has_optional_floats(bias, width);
  checker->has_eps(eps);
  checker->has_rows_of({input}, output);
}

void SampleNormOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

WorkspaceNeeds SampleNormOp::needs(const Program& program, const kernels::Variant&, size_t) const {
  WorkspaceNeeds needs;
  needs.shared = 2 * program.slots[input].height * sizeof(float);
  return needs;
}

Work SampleNormOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const size_t columns = context.width(input);
  const double count = static_cast<double>(rows.count * columns);
  RowSums sums(input, rows.count, context);
  double totals[2];
  sums.add(0, totals);
  const auto mean = static_cast<float>(totals[0] / count);
  sums.add(mean, totals);
  const double rest = totals[0] / count;
  const double variance = totals[1] / count - rest * rest;
  const auto scale = static_cast<float>(1 / std::sqrt(variance + eps));
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = part.first; row < part.last; ++row) {
    context.kernels.center({context.row(input, row), context.numbers(weight), context.numbers(bias),
                            mean, static_cast<float>(rest), scale, columns,
                            context.row(output, row)});
  }
  return context.work(4 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
