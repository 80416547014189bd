#include "delegate/ops/linear.h"

#include <algorithm>
#include <optional>

#include "delegate/ops/context.h"
#include "delegate/ops/float_tiles.h"
#include "delegate/ops/low_rank_products.h"
#include "delegate/ops/window_parts.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

using kernels::Function;
using kernels::kBlockRows;
using kernels::kMatvecRows;
using kernels::LinearArgs;
using kernels::PackedWeight;
using kernels::QuantizedRows;

/// Pairs of gate and up blocks in a matrix x vector product: a thread's outputs stay in the
/// first-level cache.
constexpr size_t kMatvecPairs = 4;

/// Outputs of a gated linear that a thread works on at a time, in pairs of blocks.
constexpr size_t gated_pairs(size_t rows) { return rows <= kMatvecRows ? kMatvecPairs : 1; }

/// Bytes of each row that a pair of blocks uses.
constexpr size_t kPairBytes = 2 * kBlockRows * sizeof(float);

/// One linear op on one thread.
class Linear {
 public:
  Linear(const LinearOp& op, bool finds_prepared, OpRows rows, OpContext& context)
      : op_(op),
        finds_prepared_(finds_prepared),
        rows_(rows),
        context_(context),
        shape_(context.program.weights[op.weight]),
        weight_(context.weights[op.weight]),
        norm_(context.numbers(op.norm)),
        bias_(context.numbers(op.bias)),
        low_rank_(op.low_rank, shape_.columns, rows, context),
        scratch_(context.workspace.scratch(context.thread)),
        x_(op.convolves() ? nullptr : context.row(op.input, rows.first)),
        x_stride_(context.stride(op.input)) {
    if (shape_.quantized()) {
      quantized_ = context.workspace.quantized(rows.count, weight_, context.thread);
    } else if (norm_ != nullptr) {
      normed_ = context.workspace.normed(rows.count, context.thread);
    }
    if (op.convolves()) windows_.emplace(op.window, op.input, context, scratch_);
  }

  /// Whether there is anything to do before the product.
  bool prepares() const {
    return low_rank_.any() || (!finds_prepared_ && (shape_.quantized() || norm_ != nullptr));
  }

  /// Norms, quantizes, and computes the first product of an adapter. Threads share the rows and
  /// wait for each other; for a single row it is cheaper that every thread does it itself.
  Work prepare() {
    const size_t step = rows_.count == 1 ? 1 : shape_.quantized() ? quantized_.tile.mr : 1;
    const Range part = rows_.count == 1
                           ? Range{0, 1}
                           : share(rows_.count, step, context_.thread, context_.threads());
    for (size_t first = part.first; first < part.last; first += step) {
      prepare_rows(first, std::min(step, part.last - first));
    }
    if (rows_.count > 1) context_.team.barrier();
    const size_t out = shape_.quantized() ? sizeof(int8_t) : sizeof(float);
    const size_t numbers = low_rank_.shrink_numbers();
    return context_.work(
        numbers * sizeof(uint16_t) + rows_.count * shape_.columns * (sizeof(float) + out),
        2 * rows_.count * numbers, rows_.count);
  }

  Work multiply() {
    const bool few = !op_.gated && rows_.count <= kMatvecRows;
    const size_t parts = few ? column_parts(weight_, context_.threads()) : 1;
    if (windows_ && rows_.count < kFewFloatRows) {
      parts_ = windows_->point(rows_.first, rows_.count);
    }
    if (op_.gated) {
      multiply_pairs();
    } else if (!shape_.quantized() && rows_.count >= kFewFloatRows && !low_rank_.any()) {
      multiply_float_tiles();
    } else if (!shape_.quantized() && op_.activates() && bounds() == Function::kAdd) {
      multiply_activated();
    } else if (parts > 1) {
      multiply_parts(parts);
    } else {
      float* const y = context_.row(op_.output, rows_.first);
      const size_t stride = context_.stride(op_.output);
      // A matrix product unpacks kPanelRows of the weight at a time.
      const size_t step =
          rows_.count <= context_.kernels.few_rows ? 1 : kernels::kPanelRows / kBlockRows;
      context_.share_products(
          weight_.blocks(), step, weight_.layout().bytes, rows_.count, [&](Range blocks) {
            multiply_blocks(weight_, bias_, blocks, y, stride, op_.accumulate, scratch_);
            low_rank_.expand({blocks.first * kBlockRows, blocks.last * kBlockRows}, y, stride);
          });
    }
    const size_t in = shape_.quantized() ? sizeof(int8_t) : sizeof(float);
    const size_t columns = context_.width(op_.output),
                 taps = windows_ ? static_cast<size_t>(op_.window.taps()) : 1;
    const size_t per_row =
        weight_.columns / taps * in + columns * sizeof(float) * (op_.accumulate ? 2 : 1);
    const size_t numbers = low_rank_.expand_numbers();
    return context_.work(weight_.bytes() + numbers * sizeof(uint16_t) + rows_.count * per_row,
                         2 * rows_.count * (shape_.rows * shape_.columns + numbers), rows_.count);
  }

 private:
  void prepare_rows(size_t first, size_t count) {
    const float* x = x_ + first * x_stride_;
    size_t stride = x_stride_;
    if (norm_ != nullptr) {
      float* to = shape_.quantized() ? reinterpret_cast<float*>(scratch_)
                                     : normed_ + first * shape_.columns;
      for (size_t row = 0; row < count; ++row) {
        context_.kernels.rms_norm(x + row * stride, norm_, op_.norm_eps, shape_.columns,
                                  to + row * shape_.columns);
      }
      x = to;
      stride = shape_.columns;
    }
    low_rank_.shrink(x, stride, first, count);
    if (!shape_.quantized()) return;
    float* const rotated = reinterpret_cast<float*>(scratch_) + quantized_.tile.mr * shape_.columns;
    context_.kernels.quantize(
        {x, stride, shape_.columns, quantized_.part(first, count), op_.rotated, rotated});
  }

  void multiply_blocks(const PackedWeight& weight, const float* bias, Range blocks, float* y,
                       size_t y_stride, bool accumulate, uint8_t* scratch) const {
    if (!shape_.quantized()) {
      context_.kernels.float_linear(
          {norm_ != nullptr ? normed_ : x_, norm_ != nullptr ? shape_.columns : x_stride_,
           rows_.count, weight, blocks.first, blocks.last, y, y_stride, bias, accumulate, bounds(),
           parts_, static_cast<size_t>(op_.window.taps())});
      return;
    }
    const auto format = static_cast<size_t>(weight.format);
    const LinearArgs args{quantized_, weight, blocks.first, blocks.last, y,
                          y_stride,   bias,   accumulate,   scratch,     activation()};
    if (rows_.count > context_.kernels.few_rows) {
      context_.kernels.matmul[format](args);
    } else if (rows_.count <= kMatvecRows) {
      context_.kernels.matvec[format](args);
    } else {
      multiply_tiles(context_.kernels.matvec[format], args);
    }
  }

  /// The activation of the outputs; kAdd: none.
  Function activation() const { return op_.activates() ? op_.activation : Function::kAdd; }

  /// The one that a product in float applies itself; kAdd: none.
  Function bounds() const {
    const bool applies = op_.activation == Function::kRelu || op_.activation == Function::kRelu6;
    return !shape_.quantized() && op_.activates() && applies ? op_.activation : Function::kAdd;
  }

  /// A few blocks at a time, which stay in a cache for all tiles of rows.
  void multiply_tiles(kernels::LinearFunction matvec, LinearArgs args) const {
    const size_t last = args.last_block, together = kernels::kPanelRows / kBlockRows;
    float* const y = args.y;
    for (size_t block = args.first_block; block < last; block += together) {
      args.first_block = block;
      args.last_block = std::min(block + together, last);
      for (size_t first = 0; first < rows_.count; first += kMatvecRows) {
        args.x = quantized_.part(first, std::min(kMatvecRows, rows_.count - first));
        args.y = y + first * args.y_stride;
        matvec(args);
      }
    }
  }

  /// Rows of float32 a tile at a time, with their activation.
  void multiply_float_tiles() {
    const size_t columns = norm_ != nullptr ? shape_.columns : x_stride_;
    const float* const x = norm_ != nullptr ? normed_ : x_;
    const size_t stride = context_.stride(op_.output), width = context_.width(op_.output);
    const size_t tile = float_tile_rows(shape_.columns + width, rows_.count, context_.threads());
    context_.team.share_out(
        context_.thread, kernels::divide_up(rows_.count, tile), 1, [&](Range tiles) {
          for (size_t at = tiles.first; at < tiles.last; ++at) {
            const size_t first = at * tile, count = std::min(tile, rows_.count - first);
            float* const y = context_.row(op_.output, rows_.first + first);
            if (windows_) parts_ = windows_->point(rows_.first + first, count);
            const float* const rows = windows_ ? nullptr : x + first * columns;
            context_.kernels.float_linear({rows, columns, count, weight_, 0, weight_.blocks(), y,
                                           stride, bias_, op_.accumulate, bounds(), parts_,
                                           static_cast<size_t>(op_.window.taps())});
            if (op_.activates() && bounds() == Function::kAdd) {
              context_.kernels.activate({op_.activation, y, stride, count, width, y, stride});
            }
          }
        });
  }

  /// For too few blocks for all threads: each computes its share of the parts of blocks, as
  /// integers, and when all are ready, its share of the outputs.
  void multiply_parts(size_t parts) const {
    const size_t blocks = weight_.blocks();
    float* const y = context_.row(op_.output, rows_.first);
    LinearArgs args{quantized_,     weight_,  0,           0, y, context_.stride(op_.output), bias_,
                    op_.accumulate, scratch_, activation()};
    int32_t* const sums = context_.workspace.sums();
    const Range mine = share(blocks * parts, context_.thread, context_.threads());
    for (size_t i = mine.first; i < mine.last; i += args.last_block - args.first_block) {
      const size_t part = i / blocks;
      const Range columns = share(weight_.columns, kernels::column_step(weight_), part, parts);
      args.first_block = i % blocks;
      args.last_block = std::min(blocks, args.first_block + mine.last - i);
      args.columns = {columns.first, columns.last};
      args.sums = sums + part * rows_.count * blocks * kBlockRows;
      context_.kernels.matvec[static_cast<size_t>(weight_.format)](args);
    }
    context_.team.barrier();
    const Range outputs = share(blocks, context_.thread, context_.threads());
    args.first_block = outputs.first;
    args.last_block = outputs.last;
    args.sums = sums;
    context_.kernels.finish_sums(args, parts);
    low_rank_.expand({outputs.first * kBlockRows, outputs.last * kBlockRows}, args.y,
                     args.y_stride);
  }

  /// For a gated linear: a few pairs of gate and up blocks at a time, to scratch, then together to
  /// the output.
  void multiply_pairs() const {
    const size_t most = gated_pairs(rows_.count);
    float* const both = panel();
    const size_t pair_bytes = 2 * weight_.layout().bytes;
    context_.share_products(weight_.blocks() / 2, 1, pair_bytes, rows_.count, [&](Range part) {
      for (size_t pair = part.first; pair < part.last; pair += most) {
        const size_t pairs = std::min(most, part.last - pair);
        const size_t stride = pairs * 2 * kBlockRows;
        PackedWeight some = weight_;
        some.data += pair * pair_bytes;
        some.rows = stride;
        const float* bias = bias_ != nullptr ? bias_ + 2 * pair * kBlockRows : nullptr;
        multiply_blocks(some, bias, {0, 2 * pairs}, both, stride, false, scratch_);
        low_rank_.expand_pairs({pair, pair + pairs}, both, stride);
        for (size_t i = 0; i < pairs; ++i) finish_pair(both + i * 2 * kBlockRows, stride, pair + i);
      }
    });
  }

  /// In float, a few blocks at a time, to scratch, then their activation to the output.
  void multiply_activated() const {
    constexpr size_t kTogether = kernels::kPanelRows / kBlockRows;
    float* const some = panel();
    float* const y = context_.row(op_.output, rows_.first);
    const size_t block_bytes = weight_.layout().bytes, stride = context_.stride(op_.output);
    context_.share_products(
        weight_.blocks(), kTogether, block_bytes, rows_.count, [&](Range blocks) {
          for (size_t block = blocks.first; block < blocks.last; block += kTogether) {
            const size_t count = std::min(kTogether, blocks.last - block);
            const size_t column = block * kBlockRows;
            PackedWeight part = weight_;
            part.data += block * block_bytes;
            part.rows = std::min(count * kBlockRows, weight_.rows - column);
            const float* bias = bias_ != nullptr ? bias_ + column : nullptr;
            multiply_blocks(part, bias, {0, count}, some, kernels::kPanelRows, false, scratch_);
            context_.kernels.activate({op_.activation, some, kernels::kPanelRows, rows_.count,
                                       part.rows, y + column, stride});
          }
        });
  }

  /// Scratch memory behind the kernels' own, for blocks that are not finished.
  float* panel() const {
    const size_t used = shape_.quantized() ? kernels::linear_scratch_bytes(weight_.columns)
                        : windows_
                            ? windows_->bytes(op_.window, context_.width(op_.input), kFewFloatRows)
                            : 0;
    return reinterpret_cast<float*>(scratch_ + kernels::round_up(used, kernels::kLineBytes));
  }

  /// activation(gate) * up of a pair of blocks, all rows.
  void finish_pair(const float* both, size_t stride, size_t pair) const {
    const size_t column = pair * kBlockRows;
    const size_t columns = std::min(kBlockRows, context_.width(op_.output) - column);
    context_.kernels.glu({op_.activation, both, both + kBlockRows, stride, rows_.count, columns,
                          context_.row(op_.output, rows_.first) + column,
                          context_.stride(op_.output), op_.accumulate});
  }

  const LinearOp& op_;
  const bool finds_prepared_;
  const OpRows rows_;
  OpContext& context_;
  const Weight& shape_;
  const PackedWeight& weight_;
  const float* norm_;
  const float* bias_;
  const LowRankProducts low_rank_;
  uint8_t* scratch_;
  const float* x_;
  size_t x_stride_;
  QuantizedRows quantized_{};
  float* normed_ = nullptr;
  std::optional<WindowParts> windows_;   ///< of a convolution
  const float* const* parts_ = nullptr;  ///< of its rows that are multiplied
};

}  // namespace

size_t column_parts(const PackedWeight& weight, size_t threads) {
  const size_t blocks = weight.blocks();
  if (!kernels::has_integer_sums(weight.format) || blocks >= threads) return 1;
  const size_t steps = kernels::divide_up(weight.columns, kernels::column_step(weight));
  size_t best = 1, longest = 1;  // parts of a block that the busiest thread computes
  for (size_t parts = 2; parts <= std::min(steps, threads); ++parts) {
    const size_t most = kernels::divide_up(blocks * parts, threads);
    if (most * best < longest * parts) best = parts, longest = most;
  }
  return best;
}

WorkspaceNeeds LinearOp::needs(const Program& program, const kernels::Variant& kernels,
                               size_t threads) const {
  const Weight& matrix = program.weights[weight];
  const PackedWeight packed = matrix.packed(nullptr);
  WorkspaceNeeds needs;
  needs.shrunk = shrunk_floats(low_rank);
  if (matrix.quantized()) {
    const size_t parts = gated ? 1 : column_parts(packed, threads);
    const size_t rows =
        norm.present() || rotated != 0 ? std::max(kernels.tile.mr, kMatvecRows) + 1 : 0;
    needs.columns = packed.columns;
    needs.sums = parts > 1 ? parts * kMatvecRows * packed.blocks() * kBlockRows : 0;
    needs.scratch = std::max(kernels::linear_scratch_bytes(packed.columns),
                             rows * matrix.columns * sizeof(float));
  } else {
    needs.normed_columns = norm.present() ? matrix.columns : 0;
  }
  if (convolves()) {
    const size_t rows = std::max(most_float_tile_rows(matrix.columns + matrix.rows), kFewFloatRows);
    needs.scratch =
        WindowParts::bytes(window, static_cast<size_t>(matrix.columns / window.taps()), rows);
  }
  if (gated || (activates() && !matrix.quantized())) {
    needs.scratch = kernels::round_up(needs.scratch, kernels::kLineBytes) +
                    kMatvecRows * kMatvecPairs * kPairBytes;
    needs.scratch_per_row = kPairBytes;
  }
  return needs;
}

Work LinearOp::run(const Op& op, OpRows rows, OpContext& context) const {
  Linear work(*this, op.prepared, rows, context);
  if (work.prepares()) {
    context.timer.begin(op.prepare_debug_id);
    context.timer.end(work.prepare());
  }
  context.timer.begin(op.debug_id);
  return work.multiply();
}

}  // namespace thimble::cpu
