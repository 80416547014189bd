#include "delegate/ops/shared_attention.h"

#include <cmath>

#include "delegate/ops/checker.h"
#include "delegate/ops/context.h"
#include "delegate/ops/row_needs.h"

namespace thimble::cpu {

SharedAttentionOp SharedAttentionOp::read(const FlatbufferTable& table) {
  SharedAttentionOp op{};
  op.query = table.scalar<uint32_t>(0);
  op.output = table.scalar<uint32_t>(1);
  op.num_attention_heads = table.scalar<uint32_t>(2);
  op.cache = table.scalar<uint32_t>(3);
  op.scale = table.scalar<float>(4);
  op.query_norm = read_floats(table.table(5));
  op.norm_eps = table.scalar<float>(6);
  op.cosines = read_floats(table.table(7));
  op.sines = read_floats(table.table(8));
  op.window = table.scalar<uint32_t>(9);
  op.soft_cap = table.scalar<float>(10);
  return op;
}

void SharedAttentionOp::check(Checker* checker) const {
  if (!checker->reads_cache(cache)) return;
  const CacheShape& shape = checker->program().caches[cache];
  const size_t heads = num_attention_heads, dim = shape.head_dim;
  checker->check(heads >= 1 && heads <= kMostHeads && heads % shape.num_key_value_heads == 0,
                 "has " + std::to_string(heads) + " heads on " +
                     std::to_string(shape.num_key_value_heads) + " of keys and values");
  checker->has_slot(query, heads * dim);
  checker->has_slot(output, heads * dim);
  checker->check(output != query, "reads and writes slot " + std::to_string(output));
  checker->check(std::isfinite(scale), "has the scale " + std::to_string(scale));
  checker->has_optional_floats(query_norm, dim);
  checker->has_eps(norm_eps);
  checker->check(soft_cap >= 0 && std::isfinite(soft_cap),
                 "has the soft cap " + std::to_string(soft_cap));
  checker->reads_window(cache, window);
  checker->has_rows_of({query}, output);
  checker->check(cosines.present() == sines.present(), "has cosines without sines, or the reverse");
  if (!cosines.present()) return;
  checker->check(dim % 2 == 0, "rotates heads of " + std::to_string(dim) + " numbers");
  const size_t rows = checker->program().original + shape.max_context_len;
  checker->has_floats(cosines, rows * (dim / 2));
  checker->has_floats(sines, rows * (dim / 2));
}

void SharedAttentionOp::walk(RowNeeds* rows) const { rows->reads(query, rows->written(output)); }

WorkspaceNeeds SharedAttentionOp::needs(const Program& program, const kernels::Variant& kernels,
                                        size_t threads) const {
  return attention().needs(program, kernels, threads);
}

Work SharedAttentionOp::run(const Op& op, OpRows rows, OpContext& context) const {
  return attention().run(op, rows, context);
}

AttentionOp SharedAttentionOp::attention() const {
  AttentionOp same{};
  same.query = query;
  same.output = output;
  same.num_attention_heads = num_attention_heads;
  same.cache = cache;
  same.scale = scale;
  same.query_norm = query_norm;
  same.norm_eps = norm_eps;
  same.cosines = cosines;
  same.sines = sines;
  same.window = window;
  same.soft_cap = soft_cap;
  same.shared = true;
  return same;
}

}  // namespace thimble::cpu
