// Embedding, RMSNorm, addition and SwiGLU as ops of their own.

#include "delegate/op_context.h"
#include "delegate/share.h"
#include "kernels/embedding.h"

namespace thimble::cpu {
namespace {

/// A thread's part of rows x columns: rows where there are several, else columns.
struct Part {
  Range rows;
  Range columns;
};

Part share_out(OpRows rows, size_t columns, const OpContext& context) {
  if (rows.count == 1) {
    const Range part = share(columns, kernels::kBlockRows, context.thread, context.threads());
    return {{rows.first, rows.first + 1}, part};
  }
  const Range part = share(rows.count, context.thread, context.threads());
  return {{rows.first + part.first, rows.first + part.last}, {0, columns}};
}

}  // namespace

Work run_op(const Op& op, const EmbeddingOp& embedding, OpRows rows, OpContext& context) {
  const kernels::PackedWeight& weight = context.weights[embedding.weight];
  const size_t columns = context.program.weights[embedding.weight].columns;
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t i = part.first; i < part.last; ++i) {
    const size_t row = rows.first + i;
    const auto token = static_cast<size_t>(context.tokens[context.chunk.first + row]);
    kernels::unpack_row(weight, token, columns, context.row(embedding.output, row));
  }
  const size_t bytes = weight.bytes() / weight.rows + columns * sizeof(float);
  return context.work(rows.count * bytes, 0, rows.count);
}

Work run_op(const Op& op, const NormOp& norm, OpRows rows, OpContext& context) {
  const size_t columns = context.width(norm.input);
  context.timer.begin(op.debug_id);
  const Range part = share(rows.count, context.thread, context.threads());
  for (size_t row = rows.first + part.first; row < rows.first + part.last; ++row) {
    context.kernels.rms_norm(context.row(norm.input, row), context.numbers(norm.weight), norm.eps,
                             columns, context.row(norm.output, row));
  }
  return context.work(2 * rows.count * columns * sizeof(float), 0, rows.count);
}

Work run_op(const Op& op, const AddOp& add, OpRows rows, OpContext& context) {
  const size_t columns = context.width(add.input);
  context.timer.begin(op.debug_id);
  const Part part = share_out(rows, columns, context);
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    context.kernels.add_to(context.row(add.input, row) + part.columns.first, part.columns.size(),
                           context.row(add.output, row) + part.columns.first);
  }
  return context.work(3 * rows.count * columns * sizeof(float), 0, rows.count);
}

Work run_op(const Op& op, const SwigluOp& swiglu, OpRows rows, OpContext& context) {
  const size_t columns = context.width(swiglu.gate);
  context.timer.begin(op.debug_id);
  const Part part = share_out(rows, columns, context);
  const size_t first = part.columns.first;
  for (size_t row = part.rows.first; row < part.rows.last; ++row) {
    context.kernels.swiglu({context.row(swiglu.gate, row) + first,
                            context.row(swiglu.up, row) + first, 0, 1, part.columns.size(),
                            context.row(swiglu.output, row) + first, 0, false});
  }
  return context.work(3 * rows.count * columns * sizeof(float), 0, rows.count);
}

}  // namespace thimble::cpu
