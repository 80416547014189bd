#include "delegate/ops/segment_attention.h"

#include <algorithm>
#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

/// Rows of a segment of the call in a slot, or of a part of a sample.
size_t segment_rows(const OpContext& context, uint32_t slot, size_t segment, size_t parts) {
  return context.program.by_sample ? context.program.slots[slot].height / parts
                                   : context.segments[segment].rows;
}

/// Some query rows of one head of a segment: the smallest work of a thread.
struct Unit {
  size_t segment;
  size_t part;
  size_t head;
  size_t first;
};

/// The units of a chunk, numbered segment by segment, head by head.
class Units {
 public:
  Units(const OpContext& context, const SegmentAttentionOp& op)
      : context_(context),
        slot_(op.query),
        parts_(op.count()),
        heads_(op.num_attention_heads),
        together_(op.together()) {}

  size_t count() const {
    size_t count = 0;
    const Range segments = context_.chunk.segments;
    for (size_t i = segments.first; i < segments.last; ++i) count += parts_ * heads_ * blocks(i);
    return count;
  }
  Unit at(size_t number) const {
    size_t segment = context_.chunk.segments.first;
    for (; number >= parts_ * heads_ * blocks(segment); ++segment)
      number -= parts_ * heads_ * blocks(segment);
    const size_t head = number / blocks(segment);
    return {segment, head / heads_, head % heads_, number % blocks(segment) * together_};
  }

 private:
  size_t blocks(size_t segment) const {
    return kernels::divide_up(segment_rows(context_, slot_, segment, parts_), together_);
  }

  const OpContext& context_;
  const uint32_t slot_;
  const size_t parts_, heads_, together_;
};

/// The op on one thread.
class Attention {
 public:
  Attention(const SegmentAttentionOp& op, OpContext& context)
      : op_(op),
        context_(context),
        dim_(context.width(op.output) / op.num_attention_heads),
        group_(op.num_attention_heads / op.num_key_value_heads),
        units_(context, op) {}

  void run() {
    context_.team.share_out(context_.thread, units_.count(), 1, [&](Range part) {
      for (size_t i = part.first; i < part.last; ++i) attend(units_.at(i));
    });
  }

  /// Operations of all scores and outputs of the chunk.
  size_t operations() const {
    size_t pairs = 0;
    const Range segments = context_.chunk.segments;
    for (size_t i = segments.first; i < segments.last; ++i) {
      const size_t rows = query_rows(i), keys = key_rows(i);
      const size_t before = op_.window == 0 ? keys : op_.window;
      pairs += rows * std::min(keys, before + std::min<size_t>(op_.after, keys));
    }
    return 4 * pairs * op_.count() * op_.num_attention_heads * dim_;
  }

 private:
  /// Row of the chunk at which a segment, or a part of a sample, starts in a slot.
  size_t first_row(uint32_t slot, const Unit& unit) const {
    if (!context_.program.by_sample) {
      return context_.segments[unit.segment].first - context_.chunk.first;
    }
    const size_t parts = (unit.segment - context_.chunk.segments.first) * op_.count() + unit.part;
    return parts * (context_.program.slots[slot].height / op_.count());
  }
  size_t query_rows(size_t segment) const {
    return segment_rows(context_, op_.query, segment, op_.count());
  }
  size_t key_rows(size_t segment) const {
    return segment_rows(context_, op_.key, segment, op_.count());
  }
  /// The bias of the first row of a unit's part.
  const float* bias(const Unit& unit) const {
    if (!op_.biased) return nullptr;
    const size_t heads = op_.bias_heads ? op_.num_attention_heads : 1;
    const size_t sample = unit.segment - context_.chunk.segments.first;
    const size_t of_part = op_.bias_parts ? sample * op_.count() + unit.part : sample;
    const size_t of_head = of_part * heads + (op_.bias_heads ? unit.head : 0);
    return context_.row(op_.bias, of_head * query_rows(unit.segment));
  }

  void attend(const Unit& unit) const {
    const auto column = [&](uint32_t slot, size_t offset, size_t head) {
      return context_.row(slot, first_row(slot, unit)) + offset + head * dim_;
    };
    const size_t shared = unit.head / group_;
    const size_t rows = query_rows(unit.segment);
    context_.kernels.text_attention(
        {column(op_.query, op_.query_offset, unit.head), context_.stride(op_.query),
         column(op_.key, op_.key_offset, shared), context_.stride(op_.key),
         column(op_.value, op_.value_offset, shared), context_.stride(op_.value),
         column(op_.output, 0, unit.head), context_.stride(op_.output), key_rows(unit.segment),
         unit.first, std::min(rows, unit.first + op_.together()), dim_, op_.scale, op_.window,
         op_.after, bias(unit), op_.biased ? context_.stride(op_.bias) : 0,
         reinterpret_cast<float*>(context_.workspace.scratch(context_.thread)), op_.integers});
  }

  const SegmentAttentionOp& op_;
  OpContext& context_;
  const size_t dim_, group_;
  const Units units_;
};

}  // namespace

SegmentAttentionOp SegmentAttentionOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),      table.scalar<uint32_t>(1),
          table.scalar<uint32_t>(2),      table.scalar<uint32_t>(3),
          table.scalar<uint32_t>(4),      table.scalar<uint32_t>(5),
          table.scalar<uint32_t>(6),      table.scalar<uint32_t>(7),
          table.scalar<uint32_t>(8),      table.scalar<float>(9),
          table.scalar<uint32_t>(10),     table.scalar<uint32_t>(11),
          table.scalar<uint32_t>(12),     table.scalar<uint32_t>(13),
          table.scalar<uint32_t>(14),     table.scalar<uint8_t>(15) != 0,
          table.scalar<uint8_t>(16) != 0, table.scalar<uint8_t>(17) != 0,
          table.scalar<uint8_t>(18) != 0};
}

void SegmentAttentionOp::check(Checker* checker) const {
  if (!checker->has_slot(output) || !checker->has_heads(output, num_attention_heads)) return;
  const size_t heads = num_attention_heads, shared = num_key_value_heads;
  const size_t dim = checker->width(output) / heads;
  if (!checker->check(shared >= 1 && shared <= heads && heads % shared == 0,
                      "has " + std::to_string(heads) + " heads on " + std::to_string(shared) +
                          " of keys and values")) {
    return;
  }
  checker->check(dim <= kMostHeads, "has heads of " + std::to_string(dim) + " numbers");
  if (!checker->has_columns(query, query_offset, heads * dim) ||
      !checker->has_columns(key, key_offset, shared * dim) ||
      !checker->has_columns(value, value_offset, shared * dim)) {
    return;
  }
  checker->check(output != query && output != key && output != value,
                 "reads and writes slot " + std::to_string(output));
  checker->check(std::isfinite(scale), "has the scale " + std::to_string(scale));
  checker->check(max_seq_len >= 1 && max_seq_len <= kMostSegmentRows,
                 "takes texts of " + std::to_string(max_seq_len) + " tokens");
  checker->check(!(integers && biased), "adds biases to scores of integers");
  for (const uint32_t slot : {query, key, value}) checker->pools(slot);
  if (checker->program().by_sample) {
    checker->has_rows_of({query}, output);
    checker->has_rows_of({key}, value);
    checker->check(
        checker->height(query) == checker->height(key) || (window == 0 && after == UINT32_MAX),
        "has keys of other positions, and does not see all of them");
    for (const uint32_t slot : {query, key}) {
      checker->check(checker->height(slot) % count() == 0,
                     "has " + std::to_string(checker->height(slot)) + " rows in " +
                         std::to_string(count()) + " parts");
    }
    if (biased) {
      checker->has_slot(bias, checker->height(key) / count());
      checker->check(bias != output, "reads and writes slot " + std::to_string(bias));
      const size_t copies = (bias_heads ? heads : 1) * (bias_parts ? count() : 1);
      checker->has_height(bias, checker->height(query) / count() * copies);
    }
  } else {
    checker->check(count() == 1 && !biased, "has parts or biases of samples");
    checker->takes_positions(max_seq_len);
  }
  checker->takes_segments();
}

void SegmentAttentionOp::walk(RowNeeds* rows) const {
  const Rows all = rows->computed_of_all(output);
  for (const uint32_t slot : {query, key, value}) rows->reads(slot, all);
  if (biased) rows->reads(bias, all);
}

WorkspaceNeeds SegmentAttentionOp::needs(const Program& program, const kernels::Variant&,
                                         size_t) const {
  const size_t dim = program.slots[output].width / num_attention_heads;
  WorkspaceNeeds needs;
  needs.scratch = kernels::text_attention_scratch_size(dim, integers) * sizeof(float);
  return needs;
}

Work SegmentAttentionOp::run(const Op& op, OpRows rows, OpContext& context) const {
  Attention work(*this, context);
  context.timer.begin(op.debug_id);
  work.run();
  const size_t dim = context.width(output) / num_attention_heads;
  const size_t columns = 2 * (num_attention_heads + num_key_value_heads) * dim;
  return context.work(rows.count * columns * sizeof(float), work.operations(), rows.count);
}

}  // namespace thimble::cpu
