#include "delegate/ops/embedding.h"

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"
#include "kernels/shared/embedding.h"

namespace thimble::cpu {

EmbeddingOp EmbeddingOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0), table.scalar<uint32_t>(1), table.scalar<uint32_t>(2)};
}

void EmbeddingOp::check(Checker* checker) const {
  if (!checker->has_weight(weight)) return;
  const Weight& matrix = checker->program().weights[weight];
  checker->has_slot(output, matrix.columns);
  checker->takes_tokens(matrix.rows, output);
  checker->has_blocks(rotated, matrix);
}

void EmbeddingOp::walk(RowNeeds* rows) const { rows->written(output); }

Work EmbeddingOp::run(const Op& op, OpRows rows, OpContext& context) const {
  const kernels::PackedWeight& matrix = context.weights[weight];
  const size_t columns = context.program.weights[weight].columns;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t i = part.first; i < part.last; ++i) {
    const size_t row = rows.first + i;
    const auto token =
        static_cast<size_t>(context.tokens[context.program.tokens_of(context.chunk.first) + row]);
    float* const out = context.row(output, row);
    kernels::unpack_row(matrix, token, columns, out);
    if (rotated != 0) context.kernels.hadamard(out, columns, rotated, out);
  }
  const size_t bytes = matrix.bytes() / matrix.rows + columns * sizeof(float);
  return context.work(rows.count * bytes, 0, rows.count);
}

}  // namespace thimble::cpu
