#include "delegate/ops/low_rank_products.h"

#include <algorithm>

#include "delegate/ops/context.h"

namespace thimble::cpu {

using kernels::kBlockRows;

LowRankProducts::LowRankProducts(const std::vector<LowRank>& parts, size_t columns, OpRows rows,
                                 OpContext& context)
    : parts_(parts), columns_(columns), rows_(rows), context_(context) {
  for (const LowRank& part : parts) {
    if (context.adapter.is(part.adapter)) width_ += part.rank;
  }
  if (any()) t_ = context.workspace.shrunk(rows.count, context.thread);
}

/// Calls `visit(part, column of t)` for the parts of the call's adapter.
template <typename Visit>
void LowRankProducts::each(Visit visit) const {
  if (!any()) return;
  size_t column = 0;
  for (const LowRank& part : parts_) {
    if (!context_.adapter.is(part.adapter)) continue;
    visit(part, column);
    column += part.rank;
  }
}

void LowRankProducts::shrink(const float* x, size_t x_stride, size_t first, size_t count) const {
  each([&](const LowRank& part, size_t column) {
    context_.kernels.shrink({x, x_stride, count, columns_, context_.adapter.numbers + part.a,
                             part.rank, part.scale, t_ + first * width_ + column, width_});
  });
}

void LowRankProducts::expand(Range columns, float* y, size_t y_stride) const {
  each([&](const LowRank& part, size_t column) {
    const size_t first = std::max<size_t>(columns.first, part.first_row);
    const size_t last = std::min<size_t>(columns.last, part.first_row + part.rows);
    if (first >= last) return;
    context_.kernels.expand({t_ + column,
                             width_,
                             rows_.count,
                             part.rank,
                             context_.adapter.numbers + part.b,
                             {first - part.first_row, last - part.first_row},
                             y + part.first_row,
                             y_stride});
  });
}

void LowRankProducts::expand_pairs(Range pairs, float* y, size_t y_stride) const {
  each([&](const LowRank& part, size_t column) {
    const size_t first = pairs.first * kBlockRows;
    const size_t last = std::min<size_t>(pairs.last * kBlockRows, part.rows);
    if (first >= last) return;
    context_.kernels.expand({t_ + column,
                             width_,
                             rows_.count,
                             part.rank,
                             context_.adapter.numbers + part.b + first * part.rank,
                             {0, last - first},
                             y + part.first_row,
                             y_stride,
                             2 * kBlockRows});
  });
}

size_t LowRankProducts::expand_numbers() const {
  size_t numbers = 0;
  each([&](const LowRank& part, size_t) {
    numbers += part.rank * kernels::round_up(part.rows, kBlockRows);
  });
  return numbers;
}

}  // namespace thimble::cpu
