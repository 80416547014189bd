#include "delegate/metal/writer.h"

#include <algorithm>
#include <cmath>

namespace thimble::metal {
namespace {

using kernels::divide_up;
using kernels::kBlockRows;

/// Up to here a row at a time is multiplied; above, tiles of rows.
constexpr size_t kMatvecRows = 4;
/// Rows that matmul_* and float_linear make at a time.
constexpr size_t kMatmulRows = 32;
constexpr size_t kFloatLinearRows = 8;

uint32_t narrow(size_t number) { return static_cast<uint32_t>(number); }

/// The kernel for a weight's format, of those that follow one another.
Kernel of_format(Kernel first, kernels::WeightFormat format) {
  return static_cast<Kernel>(static_cast<size_t>(first) + static_cast<size_t>(format));
}

/// The kernel for a cache's type, of two that follow one another.
Kernel of_type(Kernel first, kernels::CacheType type) {
  return static_cast<Kernel>(static_cast<size_t>(first) + static_cast<size_t>(type));
}

size_t element_bytes(kernels::CacheType type) {
  return type == kernels::CacheType::kFloat16 ? sizeof(uint16_t) : sizeof(float);
}

}  // namespace

void Writer::write(cpu::OpRows rows) {
  std::visit([&](const auto& kind) { write(kind, rows); }, op_.kind);
}

template <typename Params>
void Writer::add(Kernel kernel, uint32_t debug_id, std::initializer_list<BufferRef> buffers,
                 const Params& params, size_t groups_x, size_t groups_y) {
  Dispatch dispatch{};
  dispatch.kernel = kernel;
  dispatch.debug_id = debug_id;
  dispatch.groups[0] = narrow(groups_x);
  dispatch.groups[1] = narrow(groups_y);
  dispatch.groups[2] = 1;
  dispatch.buffer_count = narrow(buffers.size());
  std::copy(buffers.begin(), buffers.end(), dispatch.buffers);
  dispatch.set_constants(params);
  dispatches_.push_back(dispatch);
}

BufferRef Writer::row(uint32_t slot, size_t row, size_t column) const {
  const cpu::Slot& shape = program_.slots[slot];
  const size_t first = shape.last_only ? 0 : row * shape.width;
  return arena(plan_.slots_[slot] + (first + column) * sizeof(float));
}

BufferRef Writer::floats(const cpu::Floats& piece) const {
  return piece.present() ? BufferRef{Plan::kFloats, piece.offset * sizeof(float)} : arena(0);
}

WeightParams Writer::weight_params(uint32_t weight) const {
  const kernels::PackedWeight packed = program_.weights[weight].packed(nullptr);
  const kernels::BlockLayout layout = packed.layout();
  return {static_cast<uint32_t>(packed.format),
          narrow(packed.rows),
          narrow(packed.columns),
          narrow(packed.group_size),
          narrow(layout.bytes),
          narrow(layout.scales),
          narrow(layout.values)};
}

void Writer::write(const cpu::EmbeddingOp& op, cpu::OpRows rows) {
  const EmbedParams params{weight_params(op.weight), narrow(program_.weights[op.weight].columns),
                           width(op.output)};
  const BufferRef tokens{Plan::kTokens, (chunk_.first + rows.first) * sizeof(int32_t)};
  add(Kernel::kEmbedRows, op_.debug_id,
      {{plan_.weight(op.weight), 0}, tokens, row(op.output, rows.first)}, params, rows.count, 1);
}

void Writer::write(const cpu::NormOp& op, cpu::OpRows rows) {
  const NormParams params{width(op.input), width(op.input), width(op.output), op.eps};
  add(Kernel::kNormRows, op_.debug_id,
      {row(op.input, rows.first), floats(op.weight), row(op.output, rows.first)}, params,
      rows.count, 1);
}

void Writer::write(const cpu::ElementwiseOp& op, cpu::OpRows rows) {
  const uint32_t columns = width(op.input);
  const PairParams params{columns, columns, 0, columns};
  const uint32_t added = op.output == op.input ? op.other : op.input;
  add(Kernel::kAddRows, op_.debug_id, {row(added, rows.first), row(op.output, rows.first)}, params,
      divide_up(columns, shape_of(Kernel::kAddRows).threads), rows.count);
}

void Writer::write(const cpu::GluOp& op, cpu::OpRows rows) {
  const uint32_t columns = width(op.gate);
  const PairParams params{columns, columns, columns, columns};
  add(Kernel::kSwigluRows, op_.debug_id,
      {row(op.gate, rows.first), row(op.up, rows.first), row(op.output, rows.first)}, params,
      divide_up(columns, shape_of(Kernel::kSwigluRows).threads), rows.count);
}

void Writer::prepare(const cpu::LinearOp& op, cpu::OpRows rows) {
  const cpu::Weight& weight = program_.weights[op.weight];
  const uint32_t columns = narrow(weight.columns), stride = width(op.input);
  const BufferRef x = row(op.input, rows.first);
  const kernels::PackedWeight packed = weight.packed(nullptr);
  const uint32_t group_size = narrow(packed.input_group());
  if (op.rotated != 0) {
    const RotateParams rotate{columns,           stride,
                              op.norm.present(), op.norm_eps,
                              op.rotated,        1.0f / std::sqrt(static_cast<float>(op.rotated))};
    add(Kernel::kRotateRows, op_.prepare_debug_id, {x, floats(op.norm), arena(plan_.normed_)},
        rotate, rows.count, 1);
    const QuantizeParams params{columns, narrow(packed.columns), columns, false, 0, group_size};
    add(Kernel::kQuantizeRows, op_.prepare_debug_id,
        {arena(plan_.normed_), floats(op.norm), arena(plan_.quantized_), arena(plan_.scales_)},
        params, rows.count, 1);
  } else if (weight.quantized()) {
    const QuantizeParams params{
        columns, narrow(packed.columns), stride, op.norm.present(), op.norm_eps, group_size};
    add(Kernel::kQuantizeRows, op_.prepare_debug_id,
        {x, floats(op.norm), arena(plan_.quantized_), arena(plan_.scales_)}, params, rows.count, 1);
  } else if (op.norm.present()) {
    const NormParams params{columns, stride, columns, op.norm_eps};
    add(Kernel::kNormRows, op_.prepare_debug_id, {x, floats(op.norm), arena(plan_.normed_)}, params,
        rows.count, 1);
  }
}

void Writer::write(const cpu::LinearOp& op, cpu::OpRows rows) {
  if (!op_.prepared) prepare(op, rows);
  const cpu::Weight& weight = program_.weights[op.weight];
  const bool is_normed = op.norm.present();
  LinearParams params{};
  params.weight = weight_params(op.weight);
  params.rows = narrow(rows.count);
  params.x_stride = is_normed ? narrow(weight.columns) : width(op.input);
  params.y_stride = params.y_columns = width(op.output);
  params.has_bias = op.bias.present();
  params.accumulate = op.accumulate;
  params.swiglu = op.gated;
  const size_t pairs = divide_up(weight.rows, 2 * kBlockRows);
  const BufferRef data{plan_.weight(op.weight), 0}, y = row(op.output, rows.first);
  if (!weight.quantized()) {
    const BufferRef x = is_normed ? arena(plan_.normed_) : row(op.input, rows.first);
    add(Kernel::kFloatLinear, op_.debug_id, {data, x, floats(op.bias), y}, params, pairs,
        divide_up(rows.count, kFloatLinearRows));
    return;
  }
  const bool few = rows.count <= kMatvecRows;
  const Kernel first = few ? Kernel::kMatvecInt4TwoLevel : Kernel::kMatmulInt4TwoLevel;
  add(of_format(first, weight.format), op_.debug_id,
      {data, arena(plan_.quantized_), arena(plan_.scales_), floats(op.bias), y}, params, pairs,
      few ? rows.count : divide_up(rows.count, kMatmulRows));
}

void Writer::prepare(const cpu::AttentionOp& op, cpu::OpRows rows) {
  const cpu::CacheGeometry& cache = plan_.caches_[op.cache];
  const size_t element = element_bytes(cache.type);
  HeadsParams params{};
  params.query_heads = op.num_attention_heads;
  params.key_heads = narrow(cache.heads);
  params.head_dim = narrow(cache.head_dim);
  params.start_pos = narrow(start_pos_);
  params.query_stride = width(op.query);
  params.key_stride = width(op.key);
  params.value_stride = width(op.value);
  params.first_query = narrow(rows.first);
  params.last_query = narrow(rows.first + rows.count);
  params.has_query_norm = op.query_norm.present();
  params.has_key_norm = op.key_norm.present();
  params.has_rotation = op.cosines.present();
  params.query_norm_at = narrow(op.query_norm.offset);
  params.key_norm_at = narrow(op.key_norm.offset);
  params.cosines_at = narrow(op.cosines.offset);
  params.sines_at = narrow(op.sines.offset);
  params.eps = op.norm_eps;
  params.cache_head_stride = narrow(cache.head_bytes() / element);
  params.cache_values_at = narrow(cache.values_at() / element);
  params.ring = cache.is_ring() ? narrow(cache.capacity) : 0;
  add(of_type(Kernel::kPrepareHeadsFloat16, cache.type), op_.prepare_debug_id,
      {row(op.query, 0, op.query_offset),
       row(op.key, 0, op.key_offset),
       row(op.value, 0, op.value_offset),
       {program_.floats.empty() ? Plan::kArena : Plan::kFloats, 0},
       {plan_.cache(op.cache), 0}},
      params, op.num_attention_heads + cache.heads, chunk_.rows);
}

void Writer::write(const cpu::AttentionOp& op, cpu::OpRows rows) {
  prepare(op, rows);
  if (rows.count == 0) return;
  const cpu::CacheGeometry& cache = plan_.caches_[op.cache];
  const size_t element = element_bytes(cache.type), start_pos = start_pos_ + rows.first;
  const size_t splits = kernels::attention_splits(start_pos, rows.count) -
                        kernels::attention_first_split(start_pos, op.window);
  AttentionParams params{};
  params.query_heads = op.num_attention_heads;
  params.key_heads = narrow(cache.heads);
  params.head_dim = narrow(cache.head_dim);
  params.start_pos = narrow(start_pos);
  params.query_stride = width(op.query);
  params.output_stride = width(op.output);
  params.splits = narrow(splits);
  params.scale = op.scale * 0x1.715476p+0f;  // times log2(e)
  params.cache_head_stride = narrow(cache.head_bytes() / element);
  params.cache_values_at = narrow(cache.values_at() / element);
  params.window = op.window;
  params.ring = cache.is_ring() ? narrow(cache.capacity) : 0;
  const BufferRef queries = row(op.query, rows.first, op.query_offset);
  const BufferRef keys{plan_.cache(op.cache), 0}, output = row(op.output, rows.first);
  if (rows.count > 1 || splits == 1) {
    add(of_type(Kernel::kAttentionFloat16, cache.type), op_.debug_id, {queries, keys, output},
        params, op.num_attention_heads, rows.count);
    return;
  }
  add(of_type(Kernel::kAttentionSplitFloat16, cache.type), op_.debug_id,
      {queries, keys, arena(plan_.partials_)}, params, op.num_attention_heads, splits);
  add(Kernel::kAttentionMerge, op_.debug_id, {arena(plan_.partials_), output}, params,
      op.num_attention_heads, 1);
}

}  // namespace thimble::metal
