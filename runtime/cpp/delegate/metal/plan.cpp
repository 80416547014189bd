#include "delegate/metal/plan.h"

#include <algorithm>

#include "delegate/metal/params.h"
#include "delegate/metal/writer.h"

namespace thimble::metal {
namespace {

using kernels::kLineBytes;
using kernels::round_up;

/// Rows of a call that are run together: enough that reading weights costs little compared with
/// multiplying them.
constexpr size_t kChunkRows = 256;

Status refused(const std::string& what) {
  return Status::error("the Metal delegate does not take the program: " + what +
                       ": export it with --delegate cpu");
}

/// What the executor has no kernel for in an operator, or an empty text.
std::string missing(const cpu::EmbeddingOp& op) {
  return op.rotated > 0 ? "rotates its rows back" : "";
}
std::string missing(const cpu::NormOp& op) {
  if (op.num_heads != 1) return "normalizes each of " + std::to_string(op.num_heads) + " heads";
  return op.weight.present() ? "" : "norms without a weight";
}
std::string missing(const cpu::LinearOp& op) {
  if (op.convolves()) return "convolves";
  if (op.activates()) return "applies an activation without a gate";
  if (!op.low_rank.empty()) return "has adapters";
  return op.gated && op.activation != kernels::Function::kSilu
             ? "gates by a function other than silu"
             : "";
}
std::string missing(const cpu::AttentionOp& op) {
  if (op.soft_cap > 0) return "has a soft cap of its scores";
  return op.sinks.present() ? "has sinks" : "";
}
std::string missing(const cpu::ElementwiseOp& op) {
  if (op.function != kernels::Function::kAdd) return "is not an addition";
  return op.output == op.input || op.output == op.other ? "" : "adds into a third slot";
}
std::string missing(const cpu::GluOp& op) {
  return op.activation == kernels::Function::kSilu ? "" : "gates by a function other than silu";
}
template <typename Kind>
std::string missing(const Kind&) {
  return "has no kernel";
}

}  // namespace

Result<Plan> Plan::create(const cpu::Program& program, kernels::CacheType cache_type) {
  Plan plan(program);
  for (const cpu::CacheShape& cache : program.caches) {
    const size_t capacity = cache.rows > 0 ? cache.rows : cache.max_context_len;
    plan.caches_.push_back(
        {cache.num_key_value_heads, cache.head_dim, capacity, cache_type, cache.window});
  }
  Status status = plan.check();
  if (!status.ok()) return status;
  plan.place();
  return plan;
}

uint32_t Plan::cache(size_t index) const {
  return weight(program_->weights.size()) + static_cast<uint32_t>(index);
}

size_t Plan::output_at(size_t output) const { return slots_[program_->outputs[output].slot]; }

std::vector<cpu::NamedGeometry> Plan::named_caches() const {
  std::vector<cpu::NamedGeometry> named;
  for (size_t i = 0; i < caches_.size(); ++i)
    named.push_back({program_->caches[i].name, caches_[i]});
  return named;
}

Status Plan::check_ops() const {
  for (const cpu::Op& op : program_->ops) {
    const auto [name, what] = std::visit(
        [](const auto& kind) {
          return std::pair<std::string, std::string>(kind.kName, missing(kind));
        },
        op.kind);
    if (!what.empty()) return refused("its operator " + name + " (" + op.name + ") " + what);
  }
  return {};
}

Status Plan::check() const {
  if (caches_.empty()) return refused("it has no KV cache");
  for (const cpu::Weight& weight : program_->weights) {
    if (weight.format > kernels::WeightFormat::kFloat32)
      return refused("its weight " + weight.key + " has " +
                     std::to_string(kernels::bits_of(weight.format)) + " bits");
  }
  if (program_->original > 0) return refused("it has two rotary tables");
  for (const cpu::Value& input : program_->inputs) {
    if (input.role == cpu::Role::kRows) return refused("it is a part of a model");
  }
  for (const cpu::Value& output : program_->outputs) {
    if (!program_->slots[output.slot].last_only) return refused("it returns rows of all tokens");
  }
  for (const cpu::CacheGeometry& cache : caches_) {
    if (kernels::has_cache_scales(cache.type)) {
      return Status::error("the Metal delegate's cache is float16 or float32, not " +
                           std::string(cpu::cache_type_name(cache.type)) + ": leave its type out");
    }
    if (cache.head_dim > THIMBLE_METAL_MOST_HEAD_DIM) {
      return refused("heads of " + std::to_string(cache.head_dim) + " numbers are above " +
                     std::to_string(THIMBLE_METAL_MOST_HEAD_DIM));
    }
  }
  if (program_->num_floats > UINT32_MAX) return refused("it has too many floats");
  return check_ops();
}

void Plan::place() {
  size_t context = SIZE_MAX, chunk = kChunkRows, stored = 0, normed = 0, partials = 0;
  for (const cpu::CacheShape& cache : program_->caches) {
    context = std::min(context, cache.max_context_len);
    chunk = std::min(chunk, cache.most_rows());
  }
  for (const cpu::Op& op : program_->ops) {
    if (const auto* linear = std::get_if<cpu::LinearOp>(&op.kind)) {
      const cpu::Weight& weight = program_->weights[linear->weight];
      const size_t columns = weight.packed(nullptr).columns;
      if (weight.quantized()) stored = std::max(stored, columns);
      if (!weight.quantized() || linear->rotated != 0) normed = std::max(normed, columns);
    } else if (const auto* attention = std::get_if<cpu::AttentionOp>(&op.kind)) {
      const size_t splits =
          kernels::attention_splits(program_->caches[attention->cache].max_context_len, 0);
      partials = std::max(partials, attention->num_attention_heads * splits);
    }
  }
  most_tokens_ = context;
  chunk_rows_ = std::min(chunk, context);
  const auto add = [this](size_t bytes) {
    const size_t at = arena_bytes_;
    arena_bytes_ += round_up(bytes, kLineBytes);
    return at;
  };
  for (const cpu::Slot& slot : program_->slots) {
    slots_.push_back(add((slot.last_only ? 1 : chunk_rows_) * slot.width * sizeof(float)));
  }
  quantized_ = add(chunk_rows_ * stored);
  const size_t groups = stored / kernels::kColumnStep;  // at most
  scales_ = add(chunk_rows_ * std::max(sizeof(RowScale), groups * sizeof(float)));
  normed_ = add(chunk_rows_ * normed * sizeof(float));
  partials_ = add(partials * kPartialFloats * sizeof(float));
}

void Plan::write(size_t rows, size_t start_pos, std::vector<Dispatch>* dispatches) const {
  dispatches->clear();
  for (size_t first = 0; first < rows; first += chunk_rows_) {
    const cpu::Chunk chunk =
        cpu::chunk_of(first, std::min(chunk_rows_, rows - first), {rows - 1, rows});
    for (const cpu::Op& op : program_->ops) {
      const std::optional<cpu::OpRows> op_rows = cpu::rows_of(op, chunk);
      if (op_rows.has_value()) Writer(*this, op, chunk, start_pos, dispatches).write(*op_rows);
    }
  }
}

}  // namespace thimble::metal
