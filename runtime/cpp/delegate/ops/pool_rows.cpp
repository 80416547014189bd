#include "delegate/ops/pool_rows.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

using kernels::Function;

/// Keeps the larger of two, and a NaN of either.
void keep_largest(float* to, const float* from, size_t columns) {
  for (size_t i = 0; i < columns; ++i) {
    const bool replaces = from[i] > to[i] || from[i] != from[i];
    to[i] = replaces ? from[i] : to[i];
  }
}

}  // namespace

PoolRowsOp PoolRowsOp::read(const FlatbufferTable& table) {
  PoolRowsOp op{table.scalar<uint32_t>(0),
                table.scalar<uint32_t>(1),
                table.scalar<uint32_t>(2),
                table.scalar<uint8_t>(3) != 0,
                {}};
  const FlatbufferVector<uint32_t> indices = table.vector<uint32_t>(4);
  op.indices.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) op.indices.push_back(indices[i]);
  return op;
}

void PoolRowsOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input)) return;
  if (!checker->has_slot(output, checker->width(input))) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  checker->check(count >= 1 && indices.size() == uint64_t{count} * checker->height(output),
                 "has " + std::to_string(indices.size()) + " indices");
  const size_t height = checker->height(input);
  for (const uint32_t index : indices) {
    if (!checker->check(index < height,
                        "reads row " + std::to_string(index) + " of " + std::to_string(height)))
      return;
  }
}

void PoolRowsOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

Work PoolRowsOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t columns = context.width(input), height = context.height(input);
  const float share_of_one = 1.0f / static_cast<float>(count);
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    const uint32_t* index = indices.data() + row % op.height * count;
    const size_t first = row / op.height * height;
    float* const to = context.row(output, row);
    std::copy_n(context.row(input, first + index[0]), columns, to);
    for (size_t i = 1; i < count; ++i) {
      const float* from = context.row(input, first + index[i]);
      if (largest) {
        keep_largest(to, from, columns);
      } else {
        context.kernels.elementwise({Function::kAdd, to, from, 0, columns, to});
      }
    }
    if (!largest)
      context.kernels.elementwise({Function::kScale, to, nullptr, share_of_one, columns, to});
  }
  return context.work(rows.count * (count + 1) * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
