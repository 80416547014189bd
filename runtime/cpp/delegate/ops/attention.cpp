#include "delegate/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {
namespace {

using kernels::kMatvecRows;

/// Tokens whose queries stay together when threads share a prefill.
constexpr size_t kTokenStep = 8;

/// One attention op on one thread.
class Attention {
 public:
  Attention(const AttentionOp& op, OpRows rows, OpContext& context)
      : op_(op),
        rows_(rows),
        context_(context),
        cache_(*context.piece.caches->kv[op.cache]),
        heads_(cache_.geometry().heads),
        dim_(cache_.geometry().head_dim),
        group_(op.num_attention_heads / heads_),
        block_(rotated_block(cache_.geometry())),
        start_pos_(context.position(0)),
        scratch_(reinterpret_cast<float*>(context.workspace.scratch(context.thread))) {}

  Work prepare() {
    const size_t rows = context_.piece.rows;
    // Rows of a head follow each other: 16 positions of keys share their cache lines.
    const Range part = keeps_heads() ? Range{own_heads().first * rows, own_heads().last * rows}
                                     : share(heads_ * rows, context_.thread, context_.threads());
    for (size_t i = part.first; i < part.last; ++i) prepare_head(i / rows, i % rows);
    if (!keeps_heads()) context_.team.barrier();
    if (op_.shared) {
      const size_t numbers = op_.num_attention_heads * dim_;
      return context_.work(rows_.count * 2 * numbers * sizeof(float), 0, rows_.count);
    }
    const size_t numbers = (op_.num_attention_heads + heads_) * dim_;
    return context_.work(rows * (2 * numbers * sizeof(float) + heads_ * cache_.position_bytes()), 0,
                         rows);
  }

  Work attend() {
    if (rows_.count > 0) {
      if (keeps_heads()) {
        for (size_t head = own_heads().first; head < own_heads().last; ++head) {
          attend_heads(head, {0, group_}, {0, rows_.count});
        }
      } else if (rows_.count == 1 && context_.piece.ends == nullptr) {
        attend_in_splits();
      } else {
        attend_in_steps();
      }
    }
    const size_t first = start_pos_ + rows_.first;  // position of the first query
    const size_t visible =
        rows_.count > 0 ? first + rows_.count - kernels::attention_first(first, op_.window) : 0;
    const size_t width = op_.num_attention_heads * dim_;
    return context_.work(
        heads_ * visible * cache_.position_bytes() + 2 * rows_.count * width * sizeof(float),
        4 * width * cost(rows_.count), rows_.count);
  }

 private:
  /// With few rows each thread does all the work of its own key/value heads, from the norm to the
  /// end, and never waits. If the heads do not divide evenly, splits of many positions are faster.
  bool keeps_heads() const {
    const bool even = heads_ % context_.threads() == 0 || rows_.count > 1 || splits() == 1;
    return context_.piece.rows <= kMatvecRows && heads_ >= context_.threads() && even;
  }
  /// Splits that the first row attends to.
  size_t splits() const {
    return kernels::attention_splits(start_pos_ + rows_.first, 1) - first_split();
  }
  size_t first_split() const {
    return kernels::attention_first_split(start_pos_ + rows_.first, op_.window);
  }

  Range own_heads() const { return share(heads_, context_.thread, context_.threads()); }

  /// The queries, the key and the place in the cache of one key/value head and one row.
  void prepare_head(size_t head, size_t row) {
    const size_t position = start_pos_ + row;
    if (row >= rows_.first && row < rows_.first + rows_.count) {
      float* query = context_.row(op_.query, row) + op_.query_offset + head * group_ * dim_;
      norm_and_rotate(query, group_, op_.query_norm, position);
      spread(query, group_);
    }
    if (op_.shared) return;
    float* key = context_.row(op_.key, row) + op_.key_offset + head * dim_;
    norm_and_rotate(key, 1, op_.key_norm, position);
    spread(key, 1);
    const float* value = context_.row(op_.value, row) + op_.value_offset + head * dim_;
    if (turns_values()) {
      context_.kernels.hadamard(value, dim_, block_, scratch_);
      value = scratch_;
    }
    context_.kernels.write_cache({key, value, dim_, cache_.geometry().row(position),
                                  cache_.geometry().type, cache_.keys(head), cache_.values(head)});
  }

  void norm_and_rotate(float* heads, size_t count, const Floats& norm, size_t position) {
    if (norm.present()) {
      for (size_t i = 0; i < count; ++i) {
        float* head = heads + i * dim_;
        context_.kernels.rms_norm(head, context_.numbers(norm), op_.norm_eps, dim_, head);
      }
    }
    if (op_.cosines.present()) {
      context_.rotate(heads, count, dim_, op_.cosines, op_.sines, position - start_pos_);
    }
  }

  /// Rotates queries and keys of a cache of integers in blocks, which leaves their products:
  /// outliers of a few dimensions, which would decide the scale, are spread over many (QuaRot,
  /// Ashkboos et al., 2024, section 4.2).
  void spread(float* heads, size_t count) const {
    if (block_ > 0) context_.kernels.hadamard(heads, count * dim_, block_, heads);
  }

  /// Values of int4 are rotated too, and what attention makes of them is rotated back.
  bool turns_values() const {
    return block_ > 0 && kernels::value_type(cache_.geometry().type) == kernels::CacheType::kInt4;
  }
  void turn_back(const kernels::AttentionArgs& args) const {
    for (size_t t = 0; turns_values() && t < args.tokens; ++t) {
      float* out = args.out + t * args.out_stride;
      context_.kernels.hadamard(out, args.heads * dim_, block_, out);
    }
  }

  /// The numbers that are rotated together; 0: none are.
  static size_t rotated_block(const CacheGeometry& cache) {
    if (!kernels::has_cache_scales(cache.type)) return 0;
    for (const size_t block : {64, 32, 16}) {
      if (cache.head_dim % block == 0) return block;
    }
    return 0;
  }

  /// Some queries of a key/value head, for some of the op's rows.
  kernels::AttentionArgs arguments(size_t head, Range queries, Range rows) const {
    const size_t first = rows_.first + rows.first;
    const size_t column = (head * group_ + queries.first) * dim_;
    return {
        context_.row(op_.query, first) + op_.query_offset + column,
        context_.stride(op_.query),
        rows.size(),
        queries.size(),
        dim_,
        start_pos_ + first,
        op_.scale,
        cache_.geometry().type,
        cache_.keys(head),
        cache_.values(head),
        context_.row(op_.output, first) + column,
        context_.stride(op_.output),
        scratch_,
        op_.window,
        cache_.geometry().is_ring() ? cache_.geometry().capacity : 0,
        op_.soft_cap,
        op_.sinks.present() ? context_.numbers(op_.sinks) + head * group_ + queries.first : nullptr,
        context_.piece.ends == nullptr ? nullptr : context_.piece.ends + first};
  }

  void attend_heads(size_t head, Range queries, Range rows) const {
    const kernels::AttentionArgs args = arguments(head, queries, rows);
    context_.kernels.attention(args);
    turn_back(args);
  }

  /// A single row: splits of positions for each key/value head; with one split only, query heads.
  void attend_in_splits() const {
    if (splits() == 1) {
      attend_query_heads(share(op_.num_attention_heads, context_.thread, context_.threads()));
      return;
    }
    const size_t partial = kernels::attention_partial_size(1, group_, dim_);
    context_.team.share_out(context_.thread, heads_ * splits(), 1, [&](Range part) {
      for (size_t i = part.first; i < part.last; ++i) {
        context_.kernels.attention_split(arguments(i / splits(), {0, group_}, {0, 1}),
                                         first_split() + i % splits(),
                                         context_.workspace.partials() + i * partial);
      }
    });
    context_.team.barrier();
    const Range heads = own_heads();
    for (size_t head = heads.first; head < heads.last; ++head) {
      const kernels::AttentionArgs args = arguments(head, {0, group_}, {0, 1});
      context_.kernels.attention_merge(args,
                                       context_.workspace.partials() + head * splits() * partial);
      turn_back(args);
    }
  }

  /// A range of query heads of the single row.
  void attend_query_heads(Range queries) const {
    while (queries.size() > 0) {
      const size_t head = queries.first / group_;
      const size_t last = std::min(queries.last, (head + 1) * group_);
      attend_heads(head, {queries.first - head * group_, last - head * group_}, {0, 1});
      queries.first = last;
    }
  }

  /// The cost of the first `rows` rows of a head: the positions that they attend to.
  size_t cost(size_t rows) const {
    const size_t start = start_pos_ + rows_.first, window = op_.window;
    // Rows that attend to all positions up to their own; the others attend to a window.
    const size_t full = window == 0 ? rows : std::min(rows, window - std::min(window, start));
    size_t positions = full * start + full * (full + 1) / 2 + (rows - full) * window;
    for (size_t row = rows_.first; context_.piece.ends != nullptr && row < rows_.first + rows;
         ++row)
      positions += context_.piece.ends[row] - (start_pos_ + row + 1);
    return positions;
  }

  /// Several rows: head after head, tokens in steps, as threads get on: later rows attend to more
  /// positions.
  void attend_in_steps() const {
    const size_t steps = kernels::divide_up(rows_.count, kTokenStep);
    const size_t least = kernels::divide_up(kernels::kMostAttentionRows, kTokenStep * group_);
    context_.team.share_out(context_.thread, heads_ * steps, least, [&](Range part) {
      while (part.size() > 0) {
        const size_t head = part.first / steps, before = head * steps;
        const size_t last = std::min(part.last, before + steps);
        attend_heads(head, {0, group_},
                     {(part.first - before) * kTokenStep,
                      std::min((last - before) * kTokenStep, rows_.count)});
        part.first = last;
      }
    });
  }

  const AttentionOp& op_;
  const OpRows rows_;
  OpContext& context_;
  KvCache& cache_;
  const size_t heads_, dim_, group_, block_, start_pos_;
  float* scratch_;
};

}  // namespace

AttentionOp AttentionOp::read(const FlatbufferTable& table) {
  return {table.scalar<uint32_t>(0),  table.scalar<uint32_t>(1),    table.scalar<uint32_t>(2),
          table.scalar<uint32_t>(3),  table.scalar<uint32_t>(4),    table.scalar<uint32_t>(5),
          table.scalar<uint32_t>(6),  table.scalar<uint32_t>(7),    table.scalar<uint32_t>(8),
          table.scalar<float>(9),     read_floats(table.table(10)), read_floats(table.table(11)),
          table.scalar<float>(12),    read_floats(table.table(13)), read_floats(table.table(14)),
          table.scalar<uint32_t>(15), table.scalar<float>(16),      read_floats(table.table(17))};
}

void AttentionOp::check(Checker* checker) const {
  if (!checker->takes_cache(cache)) return;
  const CacheShape& shape = checker->program().caches[cache];
  const size_t heads = num_attention_heads, dim = shape.head_dim;
  checker->check(heads >= 1 && heads <= kMostHeads && heads % shape.num_key_value_heads == 0,
                 "has " + std::to_string(heads) + " heads on " +
                     std::to_string(shape.num_key_value_heads) + " of keys and values");
  checker->has_columns(query, query_offset, heads * dim);
  checker->has_columns(key, key_offset, shape.num_key_value_heads * dim);
  checker->has_columns(value, value_offset, shape.num_key_value_heads * dim);
  checker->has_slot(output, heads * dim);
  checker->check(output != query && output != key && output != value,
                 "reads and writes slot " + std::to_string(output));
  checker->check(std::isfinite(scale), "has the scale " + std::to_string(scale));
  checker->has_optional_floats(query_norm, dim);
  checker->has_optional_floats(key_norm, dim);
  checker->has_eps(norm_eps);
  checker->check(soft_cap >= 0 && std::isfinite(soft_cap),
                 "has the soft cap " + std::to_string(soft_cap));
  checker->has_optional_floats(sinks, heads);
  checker->takes_window(cache, window);
  checker->has_rows_of({query}, output);
  checker->check(cosines.present() == sines.present(), "has cosines without sines, or the reverse");
  if (!cosines.present()) return;
  checker->check(dim % 2 == 0, "rotates heads of " + std::to_string(dim) + " numbers");
  const size_t rows = checker->program().original + shape.max_context_len;
  checker->has_floats(cosines, rows * (dim / 2));
  checker->has_floats(sines, rows * (dim / 2));
}

void AttentionOp::walk(RowNeeds* rows) const {
  rows->reads(query, rows->written(output));
  rows->reads(key, Rows::kAll);
  rows->reads(value, Rows::kAll);
  rows->runs_for_all();
}

WorkspaceNeeds AttentionOp::needs(const Program& program, const kernels::Variant&, size_t) const {
  const CacheShape& shape = program.caches[cache];
  const size_t splits = kernels::attention_splits(shape.max_context_len, 0);
  WorkspaceNeeds needs;
  needs.partials = splits * kernels::attention_partial_size(1, num_attention_heads, shape.head_dim);
  needs.scratch = kernels::attention_scratch_size(shape.head_dim) * sizeof(float);
  return needs;
}

Work AttentionOp::run(const Op& op, OpRows rows, OpContext& context) const {
  Attention work(*this, rows, context);
  context.timer.begin(op.prepare_debug_id);
  context.timer.end(work.prepare());
  context.timer.begin(op.debug_id);
  return work.attend();
}

}  // namespace thimble::cpu
