#include "delegate/ops/relative_scores.h"

#include <algorithm>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

using kernels::kBlockRows;

constexpr size_t kTogether = 16;  // queries that are multiplied by the same places

/// Places of a head, in whole blocks, that some queries are multiplied by.
size_t places_of(size_t rows) {
  return kernels::round_up(rows + kTogether - 1, kBlockRows) + kBlockRows;
}

/// The op on one thread.
class Scores {
 public:
  Scores(const RelativeScoresOp& op, OpContext& context)
      : op_(op),
        context_(context),
        weight_(context.weights[op.weight]),
        dim_(weight_.columns),
        heads_(context.width(op.input) / dim_),
        rows_(context.height(op.input)),
        blocks_(weight_.blocks() / heads_),
        products_(reinterpret_cast<float*>(context.workspace.scratch(context.thread))) {}

  void run(size_t first_sample, size_t samples) const {
    const size_t parts = kernels::divide_up(rows_, kTogether);
    context_.team.share_out(context_.thread, samples * heads_ * parts, 1, [&](const Range& units) {
      for (size_t i = units.first; i < units.last; ++i) {
        score(first_sample + i / parts / heads_, i / parts % heads_, i % parts * kTogether);
      }
    });
  }

 private:
  /// Of some queries of a head, from `first` on.
  void score(size_t sample, size_t head, size_t first) const {
    const size_t count = std::min(kTogether, rows_ - first);
    // The place of a query's first row; that of each further query is one before.
    const size_t origin = blocks_ * kBlockRows / 2 - 1 - first;
    const size_t begin = (origin - (count - 1)) / kBlockRows;
    const size_t end = kernels::divide_up(origin + rows_, kBlockRows);
    kernels::PackedWeight places = weight_;
    places.data += (head * blocks_ + begin) * weight_.layout().bytes;
    places.rows = (end - begin) * kBlockRows;
    const float* queries = context_.row(op_.input, sample * rows_ + first) + head * dim_;
    context_.kernels.float_linear({queries, context_.stride(op_.input), count, places, 0,
                                   places.blocks(), products_, places.rows, nullptr, false});
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(products_ + i * places.rows + (origin - i - begin * kBlockRows), rows_,
                  context_.row(op_.output, (sample * heads_ + head) * rows_ + first + i));
    }
  }

  const RelativeScoresOp& op_;
  OpContext& context_;
  const kernels::PackedWeight weight_;
  const size_t dim_, heads_, rows_;
  const size_t blocks_;  ///< of the weight, of a head
  float* const products_;
};

}  // namespace

RelativeScoresOp RelativeScoresOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2)};
}

void RelativeScoresOp::check(Checker* checker) const {
  if (!checker->is_by_sample() || !checker->has_weight(weight)) return;
  if (!checker->has_slot(input) || !checker->has_slot(output, checker->height(input))) return;
  const Weight& table = checker->program().weights[weight];
  const size_t width = checker->width(input), rows = checker->height(input);
  if (!checker->check(table.columns >= 1 && width % table.columns == 0,
                      "has heads of " + std::to_string(table.columns) + " numbers")) {
    return;
  }
  const size_t heads = width / table.columns;
  checker->check(heads <= kMostHeads && rows <= kMostSegmentRows, "has too many heads or rows");
  checker->check(
      !table.quantized() && table.rows % (heads * kBlockRows) == 0 &&
          table.rows / heads / 2 >= rows,
      "wants a weight of float32 with the distances of " + std::to_string(rows) + " rows");
  checker->has_height(output, heads * rows);
  checker->check(input != output, "reads and writes slot " + std::to_string(input));
}

void RelativeScoresOp::walk(RowNeeds* rows) const {
  rows->reads(input, rows->computed_of_all(output));
}

WorkspaceNeeds RelativeScoresOp::needs(const Program& program, const kernels::Variant&,
                                       size_t) const {
  WorkspaceNeeds needs;
  needs.scratch = kTogether * places_of(program.slots[input].height) * sizeof(float);
  return needs;
}

Work RelativeScoresOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  const Scores scores(*this, context);
  scores.run(rows.first / op.height, rows.count / op.height);
  const size_t columns = context.height(input);
  return context.work(rows.count * columns * sizeof(float),
                      2 * rows.count * columns * context.weights[weight].columns, rows.count);
}

}  // namespace thimble::cpu
