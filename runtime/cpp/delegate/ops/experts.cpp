#include "delegate/ops/experts.h"

#include <algorithm>
#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/routing.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

using kernels::kBlockRows;
using kernels::kColumnStep;
using kernels::kLineBytes;
using kernels::kMatvecRows;
using kernels::PackedWeight;
using kernels::QuantizedRows;
using kernels::round_up;

/// Far above any model, far below what would overflow a size.
constexpr size_t kMostExperts = size_t{1} << 16;
/// Blocks of outputs that a thread computes at a time for few rows and for many: they stay in its
/// first-level cache, and a matrix product unpacks two blocks together.
constexpr size_t kFewRowsBlocks = 8;
constexpr size_t kManyRowsBlocks = kernels::kPanelRows / kBlockRows;
constexpr size_t blocks_together(size_t rows) {
  return rows <= kMatvecRows ? kFewRowsBlocks : kManyRowsBlocks;
}

kernels::Tile tile_of(size_t rows, const kernels::Variant& kernels) {
  return rows <= kMatvecRows ? kernels::matvec_tile(rows) : kernels.tile;
}
size_t widest_tile(const kernels::Variant& kernels) {
  return std::max(kernels.tile.mr, kMatvecRows);
}

/// Bytes of a row as a weight takes it: quantized, or floats.
size_t row_bytes(const Weight& weight) {
  if (!weight.quantized()) return weight.columns * sizeof(float);
  const size_t columns = weight.packed(nullptr).columns;
  return columns + columns / kColumnStep * (sizeof(int32_t) + sizeof(float)) +
         sizeof(kernels::RowParams);
}

RoutingForm form_of(const ExpertsOp& op, size_t experts, const float* choice_bias) {
  return {experts, op.num_experts_per_tok, op.normalized, op.sigmoid, choice_bias, op.share_scale};
}

/// The matrices of all experts in one weight.
struct ExpertWeights {
  const Weight& shape;
  const PackedWeight& packed;
  const float* bias;
  size_t experts;
  size_t rotated;

  size_t blocks() const { return packed.blocks() / experts; }
  /// Some blocks of an expert's matrix as a weight of its own.
  PackedWeight part(size_t expert, Range range) const {
    PackedWeight some = packed;
    some.data += (expert * blocks() + range.first) * packed.layout().bytes;
    some.rows = range.size() * kBlockRows;
    return some;
  }
  const float* part_bias(size_t expert, Range range) const {
    return bias == nullptr ? nullptr : bias + (expert * blocks() + range.first) * kBlockRows;
  }
};

/// One op of experts on one thread. Every thread finds the routing itself; then they share the rows
/// that are quantized, and the outputs of each expert.
class Experts {
 public:
  Experts(const ExpertsOp& op, OpRows rows, OpContext& context)
      : op_(op),
        rows_(rows),
        context_(context),
        experts_(context.width(op.scores)),
        up_{context.program.weights[op.up_weight], context.weights[op.up_weight],
            context.numbers(op.up_bias), experts_, op.up_rotated},
        down_{context.program.weights[op.down_weight], context.weights[op.down_weight],
              context.numbers(op.down_bias), experts_, op.down_rotated},
        routing_(form_of(op, experts_, context.numbers(op.choice_bias))),
        scratch_(context.workspace.scratch(context.thread)) {
    const size_t routed = rows.count * op.num_experts_per_tok;
    gated_ = reinterpret_cast<float*>(context.workspace.shared());
    inputs_ = context.workspace.shared() +
              round_up(routed * down_.shape.columns * sizeof(float), kLineBytes);
    both_ = reinterpret_cast<float*>(scratch_ +
                                     product_scratch(up_.shape, down_.shape, context.kernels));
    lists_ = reinterpret_cast<uint8_t*>(both_) + outputs_bytes(rows.count);
  }

  /// Bytes that a product and a gathered tile take of a thread's scratch.
  static size_t product_scratch(const Weight& up, const Weight& down,
                                const kernels::Variant& kernels) {
    const size_t columns = std::max(up.packed(nullptr).columns, down.packed(nullptr).columns);
    const size_t tile = widest_tile(kernels) * columns * sizeof(float);
    return round_up(std::max(kernels::linear_scratch_bytes(columns), tile), kLineBytes);
  }
  /// Bytes of the outputs of a few blocks, of which a gate and its up are two.
  static size_t outputs_bytes(size_t rows) {
    return std::max(rows * kManyRowsBlocks, kMatvecRows * kFewRowsBlocks) * kBlockRows *
           sizeof(float);
  }

  Work run() {
    routing_.route(context_.row(op_.scores, rows_.first), context_.stride(op_.scores), rows_.count,
                   context_.kernels, lists_);
    prepare(up_, [&](size_t, const RoutedRow& row) {
      return context_.row(op_.input, rows_.first + row.row);
    });
    context_.team.barrier();
    multiply_up();
    context_.team.barrier();
    prepare(down_,
            [&](size_t index, const RoutedRow&) { return gated_ + index * down_.shape.columns; });
    context_.team.barrier();
    multiply_down();
    return work();
  }

 private:
  /// Gathers, rotates and quantizes the inputs of all experts. Threads share the tiles.
  template <typename RowAt>
  void prepare(const ExpertWeights& weights, RowAt row_at) const {
    size_t tiles = 0;
    for (size_t expert = 0; expert < experts_; ++expert) tiles += tiles_of(expert);
    const Range mine = share(tiles, context_.thread, context_.threads());
    size_t tile = 0;
    for (size_t expert = 0; expert < experts_ && tile < mine.last; ++expert) {
      const size_t count = routing_.count(expert), own = tiles_of(expert);
      const size_t step = tile_of(count, context_.kernels).mr;
      for (size_t i = 0; i < own; ++i, ++tile) {
        if (tile < mine.first || tile >= mine.last) continue;
        const size_t first = i * step;
        prepare_tile(weights, expert, {first, std::min(first + step, count)}, row_at);
      }
    }
  }

  template <typename RowAt>
  void prepare_tile(const ExpertWeights& weights, size_t expert, Range rows, RowAt row_at) const {
    const size_t columns = weights.shape.columns;
    const bool quantized = weights.shape.quantized();
    float* const to = quantized ? reinterpret_cast<float*>(scratch_)
                                : float_rows(weights, expert) + rows.first * columns;
    for (size_t row = rows.first; row < rows.last; ++row) {
      float* const own = to + (row - rows.first) * columns;
      std::copy_n(row_at(routing_.before(expert) + row, routing_.rows(expert)[row]), columns, own);
      if (weights.rotated != 0) context_.kernels.hadamard(own, columns, weights.rotated, own);
    }
    if (!quantized) return;
    QuantizedRows out = quantized_rows(weights, expert);
    out.values += rows.first * out.columns;
    out.params += rows.first;
    out.group_bias += rows.first * (out.columns / kColumnStep);
    if (out.group_size > 0) out.group_scales += rows.first * (out.columns / out.group_size);
    out.rows = rows.size();
    context_.kernels.quantize({to, columns, columns, out});
  }

  size_t tiles_of(size_t expert) const {
    const size_t count = routing_.count(expert);
    return count == 0 ? 0 : kernels::divide_up(count, tile_of(count, context_.kernels).mr);
  }

  /// Where the inputs of an expert start, in rows: each expert before it has whole tiles.
  size_t padded_before(size_t expert) const {
    return routing_.before(expert) + expert * (widest_tile(context_.kernels) - 1);
  }
  size_t padded_rows() const {
    return rows_.count * op_.num_experts_per_tok + experts_ * (widest_tile(context_.kernels) - 1);
  }

  float* float_rows(const ExpertWeights& weights, size_t expert) const {
    return reinterpret_cast<float*>(inputs_) + padded_before(expert) * weights.shape.columns;
  }

  QuantizedRows quantized_rows(const ExpertWeights& weights, size_t expert) const {
    const size_t columns = weights.packed.columns, steps = columns / kColumnStep;
    const size_t first = padded_before(expert), all = padded_rows();
    uint8_t* const biases = inputs_ + round_up(all * columns, kLineBytes);
    uint8_t* const scales = biases + round_up(all * steps * sizeof(int32_t), kLineBytes);
    uint8_t* const params = scales + round_up(all * steps * sizeof(float), kLineBytes);
    const size_t group_size = weights.packed.input_group();
    const size_t groups = group_size > 0 ? columns / group_size : 0;
    const size_t count = routing_.count(expert);
    return {reinterpret_cast<int8_t*>(inputs_) + first * columns,
            reinterpret_cast<kernels::RowParams*>(params) + first,
            reinterpret_cast<int32_t*>(biases) + first * steps,
            reinterpret_cast<float*>(scales) + first * groups,
            count,
            columns,
            tile_of(count, context_.kernels),
            group_size};
  }

  /// Some blocks of an expert's outputs, for all its rows, to `both_`.
  void multiply(const ExpertWeights& weights, size_t expert, Range blocks) const {
    const size_t count = routing_.count(expert), stride = blocks.size() * kBlockRows;
    const PackedWeight part = weights.part(expert, blocks);
    const float* bias = weights.part_bias(expert, blocks);
    if (!weights.shape.quantized()) {
      context_.kernels.float_linear({float_rows(weights, expert), weights.shape.columns, count,
                                     part, 0, blocks.size(), both_, stride, bias, false});
      return;
    }
    const auto& functions =
        count <= kMatvecRows ? context_.kernels.matvec : context_.kernels.matmul;
    functions[static_cast<size_t>(part.format)]({quantized_rows(weights, expert), part, 0,
                                                 blocks.size(), both_, stride, bias, false,
                                                 scratch_});
  }

  /// activation(gate) * up of all experts, one after the other, in parts of their columns.
  void multiply_up() const {
    const size_t pairs = up_.blocks() / 2, used = routing_.used();
    const size_t pair_bytes = 2 * up_.packed.layout().bytes;
    context_.share_products(used * pairs, 1, pair_bytes, rows_of_each(), [&](Range part) {
      size_t before = 0;  // pairs of the experts before
      for (size_t expert = 0; expert < experts_ && before < part.last; ++expert) {
        if (routing_.count(expert) == 0) continue;
        const size_t first = std::max(part.first, before);
        const size_t last = std::min(part.last, before + pairs);
        if (first < last) multiply_up(expert, {first - before, last - before});
        before += pairs;
      }
    });
  }

  /// The outputs, in parts of their columns: each adds one expert after the other.
  void multiply_down() const {
    const size_t block_bytes = routing_.used() * down_.packed.layout().bytes;
    context_.share_products(down_.blocks(), kManyRowsBlocks, block_bytes, rows_of_each(),
                            [&](Range part) {
                              clear(part);
                              for (size_t expert = 0; expert < experts_; ++expert)
                                multiply_down(expert, part);
                            });
  }

  /// Rows of an expert that has any, about.
  size_t rows_of_each() const {
    return kernels::divide_up(rows_.count * op_.num_experts_per_tok, routing_.used());
  }

  void multiply_up(size_t expert, Range mine) const {
    const size_t count = routing_.count(expert), width = down_.shape.columns;
    const size_t pairs = blocks_together(count) / 2;
    for (size_t pair = mine.first; pair < mine.last; pair += pairs) {
      const size_t last = std::min(pair + pairs, mine.last);
      const size_t stride = (last - pair) * 2 * kBlockRows;
      multiply(up_, expert, {2 * pair, 2 * last});
      for (size_t i = pair; i < last; ++i) {
        const float* gate = both_ + (i - pair) * 2 * kBlockRows;
        const size_t column = i * kBlockRows;
        context_.kernels.glu({op_.activation, gate, gate + kBlockRows, stride, count,
                              std::min(kBlockRows, width - column),
                              gated_ + routing_.before(expert) * width + column, width, false,
                              op_.limit});
      }
    }
  }

  /// Adds an expert's outputs times the rows' shares, in some blocks.
  void multiply_down(size_t expert, Range blocks) const {
    const size_t count = routing_.count(expert);
    if (count == 0) return;
    const size_t together = blocks_together(count);
    for (size_t block = blocks.first; block < blocks.last; block += together) {
      const size_t last = std::min(block + together, blocks.last), column = block * kBlockRows;
      const size_t stride = (last - block) * kBlockRows;
      const size_t columns = std::min(stride, context_.width(op_.output) - column);
      multiply(down_, expert, {block, last});
      for (size_t i = 0; i < count; ++i) {
        const RoutedRow& row = routing_.rows(expert)[i];
        float* const x = both_ + i * stride;
        float* const y = context_.row(op_.output, rows_.first + row.row) + column;
        context_.kernels.elementwise(
            {kernels::Function::kScale, x, nullptr, row.share, columns, x});
        context_.kernels.elementwise({kernels::Function::kAdd, y, x, 0, columns, y});
      }
    }
  }

  void clear(Range blocks) const {
    const size_t width = context_.width(op_.output);
    const size_t first = std::min(width, blocks.first * kBlockRows);
    const size_t last = std::min(width, blocks.last * kBlockRows);
    for (size_t row = 0; row < rows_.count; ++row) {
      std::fill_n(context_.row(op_.output, rows_.first + row) + first, last - first, 0.0f);
    }
  }

  Work work() const {
    const size_t routed = rows_.count * op_.num_experts_per_tok, used = routing_.used();
    const size_t bytes = (up_.packed.bytes() + down_.packed.bytes()) / experts_;
    const size_t numbers =
        (up_.shape.rows * up_.shape.columns + down_.shape.rows * down_.shape.columns) / experts_;
    const size_t moved = up_.shape.columns + 2 * down_.shape.columns + context_.width(op_.output);
    return context_.work(used * bytes + routed * moved * sizeof(float), 2 * routed * numbers,
                         rows_.count);
  }

  const ExpertsOp& op_;
  const OpRows rows_;
  OpContext& context_;
  const size_t experts_;
  const ExpertWeights up_, down_;
  Routing routing_;
  uint8_t* const scratch_;
  float* gated_;     ///< [routed rows][intermediate], by expert, then by row
  uint8_t* inputs_;  ///< of the product that comes next
  float* both_;      ///< outputs of a few blocks
  uint8_t* lists_;   ///< of the routing
};

}  // namespace

ExpertsOp ExpertsOp::read(const FlatbufferTable& table) {
  return {
      table.scalar<uint32_t>(0),   table.scalar<uint32_t>(1),      table.scalar<uint32_t>(2),
      table.scalar<uint32_t>(3),   table.scalar<uint32_t>(4),      read_floats(table.table(5)),
      read_floats(table.table(6)), table.scalar<uint32_t>(7),      table.scalar<uint8_t>(8) != 0,
      read_function(table, 9),     table.scalar<uint32_t>(10),     table.scalar<uint32_t>(11),
      table.scalar<float>(12),     table.scalar<uint8_t>(13) != 0, read_floats(table.table(14)),
      table.scalar<float>(15)};
}

void ExpertsOp::check(Checker* checker) const {
  if (!checker->has_weight(up_weight) || !checker->has_weight(down_weight)) return;
  const Weight& up = checker->program().weights[up_weight];
  const Weight& down = checker->program().weights[down_weight];
  if (!checker->has_slot(input, up.columns) || !checker->has_slot(scores)) return;
  if (!checker->has_slot(output)) return;
  const size_t experts = checker->width(scores), width = checker->width(output);
  if (!checker->check(
          experts <= kMostExperts && num_experts_per_tok >= 1 && num_experts_per_tok <= experts,
          "chooses " + std::to_string(num_experts_per_tok) + " of " + std::to_string(experts) +
              " experts")) {
    return;
  }
  const auto has_rows = [&](const Weight& weight, size_t rows) {
    checker->check(weight.rows == rows, "wants a weight of " + std::to_string(rows) +
                                            " rows, and has " + std::to_string(weight.rows));
  };
  has_rows(up, experts * 2 * round_up(down.columns, kBlockRows));
  has_rows(down, experts == 1 ? width : experts * round_up(width, kBlockRows));
  checker->check(output != input && output != scores,
                 "reads and writes slot " + std::to_string(output));
  checker->has_activation(activation);
  checker->check(std::isfinite(share_scale), "scales by " + std::to_string(share_scale));
  checker->has_optional_floats(choice_bias, experts);
  checker->check(sigmoid || !choice_bias.present(), "has a bias of the choice, but no sigmoids");
  checker->check(limit >= 0 && std::isfinite(limit), "has the limit " + std::to_string(limit));
  checker->has_optional_floats(up_bias, up.rows);
  checker->has_optional_floats(down_bias, down.rows);
  checker->has_blocks(up_rotated, up);
  checker->has_blocks(down_rotated, down);
  checker->has_rows_of({input, scores}, output);
}

void ExpertsOp::walk(RowNeeds* rows) const {
  const Rows needed = rows->written(output);
  rows->reads(input, needed);
  rows->reads(scores, needed);
}

WorkspaceNeeds ExpertsOp::needs(const Program& program, const kernels::Variant& kernels,
                                size_t) const {
  const Weight& up = program.weights[up_weight];
  const Weight& down = program.weights[down_weight];
  const size_t experts = program.slots[scores].width;
  const Routing routing(form_of(*this, experts, nullptr));
  const size_t row = std::max(row_bytes(up), row_bytes(down));
  WorkspaceNeeds needs;
  needs.shared_per_row = num_experts_per_tok * (down.columns * sizeof(float) + row);
  needs.shared = experts * (widest_tile(kernels) - 1) * row + 5 * kLineBytes;
  needs.scratch =
      Experts::product_scratch(up, down, kernels) + Experts::outputs_bytes(0) + routing.bytes(0);
  needs.scratch_per_row = kManyRowsBlocks * kBlockRows * sizeof(float) + routing.bytes_per_row();
  return needs;
}

Work ExpertsOp::run(const Op& op, OpRows rows, OpContext& context) const {
  context.timer.begin(op.debug_id);
  return Experts(*this, rows, context).run();
}

}  // namespace thimble::cpu
