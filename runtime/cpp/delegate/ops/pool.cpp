#include "delegate/ops/pool.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

using kernels::Function;

PoolOp PoolOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1),
          static_cast<Pooling>(table.scalar<uint8_t>(2))};
}

void PoolOp::check(Checker* checker) const {
  checker->check(pooling <= Pooling::kMean,
                 "has the unknown pooling " + std::to_string(static_cast<int>(pooling)));
  if (!checker->has_slot(input) || !checker->has_slot(output, checker->width(input))) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  checker->pools(input);
  checker->takes_segments();
  checker->has_height(output, 1);
}

void PoolOp::walk(RowNeeds* rows) const { rows->reads(input, rows->computed_of_all(output)); }

Work PoolOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input);
  context.timer.begin(op.debug_id);
  const Range part = share(columns, kernels::kBlockRows, context.thread, context.threads());
  float* to = context.segment_row(output, context.piece.segment) + part.first;
  const size_t height = context.program.slots[input].height, all = height > 0 ? height : rows.count;
  const size_t read = pooling == Pooling::kMean ? all : 1;
  const size_t first = pooling == Pooling::kLast ? all - 1 : 0;
  std::copy_n(context.row(input, first) + part.first, part.size(), to);
  for (size_t row = 1; row < read; ++row) {
    context.kernels.elementwise(
        {Function::kAdd, to, context.row(input, row) + part.first, 0, part.size(), to});
  }
  if (pooling == Pooling::kMean) {
    const float share = 1.0f / static_cast<float>(all);
    context.kernels.elementwise({Function::kScale, to, nullptr, share, part.size(), to});
  }
  return context.work((read + 1) * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
