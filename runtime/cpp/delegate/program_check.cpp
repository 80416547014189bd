#include <cmath>

#include "delegate/program.h"
#include "kernels/kernels.h"

namespace thimble::cpu {
namespace {

/// Far above any model, far below what would overflow a size.
constexpr size_t kMostWidth = size_t{1} << 24;
constexpr size_t kMostRows = size_t{1} << 28;
constexpr size_t kMostHeads = size_t{1} << 12;
constexpr size_t kMostHeadDim = size_t{1} << 12;
constexpr size_t kMostContext = size_t{1} << 24;
constexpr size_t kMostFloats = size_t{1} << 40;

/// Collects the first thing wrong.
class Checker {
 public:
  explicit Checker(Program* program) : program_(*program) {}

  /// Notes what is wrong unless it is right; returns whether all was right so far.
  bool check(bool right, const std::string& what) {
    if (!right && wrong_.empty()) wrong_ = where_ + what;
    return wrong_.empty();
  }

  Status check_all() {
    check_tables();
    for (size_t i = 0; wrong_.empty() && i < program_.ops.size(); ++i) {
      const Op& op = program_.ops[i];
      where_ = "operator " + std::to_string(i) + " (" + op.name + ") ";
      before_ = i > 0 ? std::get_if<LinearOp>(&program_.ops[i - 1].kind) : nullptr;
      std::visit([this](const auto& kind) { check_op(kind); }, op.kind);
    }
    where_.clear();
    if (wrong_.empty()) check_arguments();
    if (wrong_.empty()) return {};
    return Status::error("the CPU delegate's program is damaged: " + wrong_ +
                         ": export the model again");
  }

 private:
  void check_tables() {
    for (const Slot& slot : program_.slots) {
      check(slot.width >= 1 && slot.width <= kMostWidth,
            "a slot has " + std::to_string(slot.width) + " columns");
    }
    for (const Weight& weight : program_.weights) check_weight(weight);
    for (const CacheShape& cache : program_.caches) {
      check(cache.num_key_value_heads >= 1 && cache.num_key_value_heads <= kMostHeads &&
                cache.head_dim >= 1 && cache.head_dim <= kMostHeadDim &&
                cache.max_context_len >= 1 && cache.max_context_len <= kMostContext,
            "a cache has " + std::to_string(cache.num_key_value_heads) + " heads of " +
                std::to_string(cache.head_dim) + " numbers and " +
                std::to_string(cache.max_context_len) + " positions");
    }
    owners_.assign(program_.caches.size(), false);
  }

  void check_weight(const Weight& weight) {
    where_ = "weight " + weight.key + " ";
    const bool grouped = weight.format == kernels::WeightFormat::kInt4TwoLevel ||
                         weight.format == kernels::WeightFormat::kInt4;
    const size_t group = weight.group_size;
    check(!weight.key.empty(), "has no key");
    check(weight.rows >= 1 && weight.rows <= kMostRows,
          "has " + std::to_string(weight.rows) + " rows");
    check(weight.columns >= 1 && weight.columns <= kernels::kMostColumns,
          "has " + std::to_string(weight.columns) + " columns");
    check(grouped ? group == 32 || group == 64 || group == 128 : group == 0,
          "has groups of " + std::to_string(group));
    where_.clear();
  }

  bool check_slot(uint32_t slot) {
    return check(slot < program_.slots.size(), "uses slot " + std::to_string(slot) + " of " +
                                                   std::to_string(program_.slots.size()));
  }
  /// Whether the slot exists and is `width` wide.
  bool check_slot(uint32_t slot, size_t width) {
    return check_slot(slot) &&
           check(program_.slots[slot].width == width,
                 "wants " + std::to_string(width) + " columns in slot " + std::to_string(slot) +
                     ", which has " + std::to_string(program_.slots[slot].width));
  }
  /// Whether the slot exists and has `count` columns from `offset` on.
  bool check_slot(uint32_t slot, size_t offset, size_t count) {
    return check_slot(slot) &&
           check(offset + count <= program_.slots[slot].width,
                 "wants columns " + std::to_string(offset) + " to " +
                     std::to_string(offset + count) + " of slot " + std::to_string(slot) +
                     ", which has " + std::to_string(program_.slots[slot].width));
  }
  bool check_weight_index(uint32_t weight) {
    return check(
        weight < program_.weights.size(),
        "uses weight " + std::to_string(weight) + " of " + std::to_string(program_.weights.size()));
  }
  void check_floats(const Floats& floats, size_t length) {
    if (!check(floats.length == length && floats.offset <= kMostFloats,
               "has " + std::to_string(floats.length) + " floats from " +
                   std::to_string(floats.offset) + " where " + std::to_string(length) +
                   " are wanted")) {
      return;
    }
    check(!program_.floats.empty(), "uses floats, of which the program has none");
    program_.num_floats = std::max<uint64_t>(program_.num_floats, floats.offset + length);
  }
  void check_optional(const Floats& floats, size_t length) {
    if (floats.present()) check_floats(floats, length);
  }
  void check_eps(float eps) {
    check(eps >= 0 && std::isfinite(eps), "has the eps " + std::to_string(eps));
  }

  void check_op(const EmbeddingOp& op) {
    if (!check_weight_index(op.weight)) return;
    check_slot(op.output, program_.weights[op.weight].columns);
    has_embedding_ = true;
  }

  void check_op(const NormOp& op) {
    if (!check_slot(op.input)) return;
    const size_t width = program_.slots[op.input].width;
    check_slot(op.output, width);
    check_floats(op.weight, width);
    check_eps(op.eps);
  }

  void check_op(const LinearOp& op) {
    if (!check_weight_index(op.weight)) return;
    const Weight& weight = program_.weights[op.weight];
    if (!check_slot(op.input, weight.columns) || !check_slot(op.output)) return;
    const size_t width = program_.slots[op.output].width;
    const size_t rows = op.swiglu ? 2 * kernels::round_up(width, kernels::kBlockRows) : width;
    check(weight.rows == rows, "wants a weight of " + std::to_string(rows) + " rows, and has " +
                                   std::to_string(weight.rows));
    check(op.input != op.output, "reads and writes slot " + std::to_string(op.input));
    check_optional(op.bias, weight.rows);
    check_optional(op.norm, weight.columns);
    check_eps(op.norm_eps);
    if (op.last_row) program_.slots[op.output].one_row = true;
    if (op.prepared) check(is_prepared(op), "wants its input prepared, which no linear before did");
  }

  /// Whether the op before is a linear that prepared the same input in the same way.
  bool is_prepared(const LinearOp& op) const {
    if (before_ == nullptr || before_->weight >= program_.weights.size()) return false;
    const Weight& mine = program_.weights[op.weight];
    const Weight& other = program_.weights[before_->weight];
    return before_->input == op.input && before_->last_row == op.last_row &&
           before_->norm.offset == op.norm.offset && before_->norm.length == op.norm.length &&
           before_->norm_eps == op.norm_eps && mine.quantized() == other.quantized() &&
           mine.packed(nullptr).columns == other.packed(nullptr).columns;
  }

  void check_op(const AttentionOp& op) {
    if (!check(op.cache < program_.caches.size(), "uses cache " + std::to_string(op.cache) +
                                                      " of " +
                                                      std::to_string(program_.caches.size()))) {
      return;
    }
    check(!owners_[op.cache], "uses cache " + std::to_string(op.cache) + " of another");
    owners_[op.cache] = true;
    const CacheShape& cache = program_.caches[op.cache];
    const size_t heads = op.num_attention_heads, dim = cache.head_dim;
    check(heads >= 1 && heads <= kMostHeads && heads % cache.num_key_value_heads == 0,
          "has " + std::to_string(heads) + " heads on " +
              std::to_string(cache.num_key_value_heads) + " of keys and values");
    check_slot(op.query, op.query_offset, heads * dim);
    check_slot(op.key, op.key_offset, cache.num_key_value_heads * dim);
    check_slot(op.value, op.value_offset, cache.num_key_value_heads * dim);
    check_slot(op.output, heads * dim);
    check(op.output != op.query && op.output != op.key && op.output != op.value,
          "reads and writes slot " + std::to_string(op.output));
    check(std::isfinite(op.scale), "has the scale " + std::to_string(op.scale));
    check_optional(op.query_norm, dim);
    check_optional(op.key_norm, dim);
    check_eps(op.norm_eps);
    check(op.cosines.present() == op.sines.present(), "has cosines without sines, or the reverse");
    if (op.cosines.present()) {
      check(dim % 2 == 0, "rotates heads of " + std::to_string(dim) + " numbers");
      check_floats(op.cosines, cache.max_context_len * (dim / 2));
      check_floats(op.sines, cache.max_context_len * (dim / 2));
    }
  }

  void check_op(const AddOp& op) {
    if (check_slot(op.input)) check_slot(op.output, program_.slots[op.input].width);
  }

  void check_op(const SwigluOp& op) {
    if (!check_slot(op.gate)) return;
    check_slot(op.up, program_.slots[op.gate].width);
    check_slot(op.output, program_.slots[op.gate].width);
  }

  void check_arguments() {
    size_t tokens = 0, positions = 0;
    std::vector<bool> taken(program_.slots.size(), false);
    for (const Value& value : program_.inputs) {
      tokens += value.role == Role::kTokens;
      positions += value.role == Role::kStartPos;
      if (value.role != Role::kRows || !check_slot(value.slot)) continue;
      check(!taken[value.slot] && !program_.slots[value.slot].one_row,
            "slot " + std::to_string(value.slot) + " cannot take an input");
      taken[value.slot] = true;
    }
    check(tokens <= 1 && positions <= 1 && program_.inputs.size() > positions,
          "it has " + std::to_string(tokens) + " inputs of tokens and " +
              std::to_string(positions) + " of positions");
    check(tokens == 1 || !has_embedding_, "it embeds tokens, and takes none");
    check(positions == 1 || program_.caches.empty(), "it has a cache, and takes no position");
    check(!program_.outputs.empty(), "it has no output");
    for (const Value& value : program_.outputs) {
      check(value.role == Role::kRows, "an output is not rows");
      check_slot(value.slot);
    }
  }

  Program& program_;
  const LinearOp* before_ = nullptr;
  std::vector<bool> owners_;  ///< of the caches: whether an attention has it
  bool has_embedding_ = false;
  std::string where_;
  std::string wrong_;
};

}  // namespace

Status check_program(Program* program) {
  Status status = Checker(program).check_all();
  return status.ok() ? find_rows(program) : status;
}

}  // namespace thimble::cpu
