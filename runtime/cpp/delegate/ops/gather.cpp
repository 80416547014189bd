#include "delegate/ops/gather.h"

#include <algorithm>
#include <cstdint>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

/// Rows that are made together where numbers move one by one: those that lie beside each other in
/// the input then often go to the same place of neighbouring rows.
constexpr size_t kRowsTogether = 16;

}  // namespace

GatherOp GatherOp::read(const FlatbufferTable& table) {
  GatherOp op{table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2), {}};
  const FlatbufferVector<uint32_t> indices = table.vector<uint32_t>(3);
  op.indices.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) op.indices.push_back(indices[i]);
  return op;
}

void GatherOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_slot(input) || !checker->has_slot(output)) return;
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
  const size_t from = checker->width(input), to = checker->width(output);
  if (!checker->check(piece >= 1 && from % piece == 0 && to % piece == 0,
                      "has pieces of " + std::to_string(piece) + " numbers")) {
    return;
  }
  const size_t pieces = checker->height(input) * (from / piece);
  checker->check(indices.size() == checker->height(output) * (to / piece),
                 "has " + std::to_string(indices.size()) + " indices");
  for (const uint32_t index : indices) {
    if (!checker->check(index < pieces || index == kZeros,
                        "reads piece " + std::to_string(index) + " of " + std::to_string(pieces)))
      return;
  }
}

void GatherOp::walk(RowNeeds* rows) const { rows->reads(input, rows->written(output)); }

bool GatherOp::keeps_order() const {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] != i) return false;
  }
  return true;
}

bool GatherOp::repeats(size_t rows) const {
  const size_t row = indices.size() / rows, step = rows > 1 ? indices[row] - indices[0] : SIZE_MAX;
  for (size_t i = 0; i < indices.size(); ++i) {
    const size_t first = indices[i % row];
    if (first == kZeros || first >= step || indices[i] != first + i / row * step) return false;
  }
  return true;
}

bool GatherOp::shorten(Heights* heights) const {
  const size_t rows = heights->planned(output);
  const bool of_parts = heights->planned(input) % rows == 0 && repeats(rows);
  return of_parts || keeps_order() ? heights->by_part(input, output)
                                   : heights->by_whole(input, output);
}

void GatherOp::copy_numbers(size_t first, size_t count, size_t output_height,
                            OpContext& context) const {
  const size_t width = context.width(output), height = context.height(input);
  const float* from[kRowsTogether];
  const uint32_t* index[kRowsTogether];
  float* to[kRowsTogether];
  for (size_t r = 0; r < count; ++r) {
    from[r] = context.row(input, (first + r) / output_height * height);
    index[r] = indices.data() + (first + r) % output_height * width;
    to[r] = context.row(output, first + r);
  }
  for (size_t i = 0; i < width; ++i) {
    for (size_t r = 0; r < count; ++r) {
      to[r][i] = index[r][i] == kZeros ? 0.0f : from[r][index[r][i]];
    }
  }
}

Work GatherOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const size_t height = context.height(input), from_row = context.width(input) / piece;
  const size_t to_row = context.width(output) / piece;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  const size_t last = rows.first + part.last;
  size_t row = rows.first + part.first;
  if (piece == 1 && context.stride(input) == context.width(input)) {
    for (; row < last; row += kRowsTogether) {
      copy_numbers(row, std::min(kRowsTogether, last - row), op.height, context);
    }
  }
  for (; row < last; ++row) {
    const size_t sample = row / op.height;
    const uint32_t* index = indices.data() + row % op.height * to_row;
    float* to = context.row(output, row);
    for (size_t i = 0; i < to_row; ++i, to += piece) {
      if (index[i] == kZeros) {
        std::fill_n(to, piece, 0.0f);
        continue;
      }
      const float* from = context.row(input, sample * height + index[i] / from_row);
      std::copy_n(from + index[i] % from_row * piece, piece, to);
    }
  }
  return context.work(2 * rows.count * context.width(output) * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
