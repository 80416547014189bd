#include "delegate/workspace.h"

#include <algorithm>

namespace thimble::cpu {
namespace {

using kernels::divide_up;
using kernels::kBlockRows;
using kernels::kColumnStep;
using kernels::kLineBytes;
using kernels::kMatvecRows;
using kernels::round_up;

/// Rows of a chunk: enough that unpacking weights costs nothing beside multiplying them.
constexpr size_t kChunkRows = 256;
/// What slots and quantized activations may take together, unless kMatvecRows take more.
constexpr size_t kMostBytes = size_t{24} << 20;
/// Pairs of gate and up blocks in a matrix x vector product: a thread's outputs stay in the
/// first-level cache.
constexpr size_t kMatvecPairs = 4;

/// Rows that lie a multiple of this apart share a few sets of the caches.
constexpr size_t kConflictBytes = 4096;

size_t padded_stride(size_t width) {
  return width * sizeof(float) % kConflictBytes == 0 ? width + kBlockRows : width;
}

/// The largest of what any op of a program needs.
struct Needs {
  size_t columns = 0;         ///< stored, of a quantized weight
  size_t normed_columns = 0;  ///< of a quantized weight behind a norm
  size_t float_columns = 0;   ///< of a float32 weight behind a norm
  size_t head_dim = 0;
  size_t partials = 0;  ///< floats, of attention
  size_t sums = 0;      ///< integers, of a product cut along its columns
  bool swiglu = false;
};

Needs find_needs(const Program& program, size_t threads) {
  Needs needs;
  for (const Op& op : program.ops) {
    if (const auto* attention = std::get_if<AttentionOp>(&op.kind)) {
      const CacheShape& cache = program.caches[attention->cache];
      const size_t splits = kernels::attention_splits(cache.max_context_len, 0);
      const size_t each =
          kernels::attention_partial_size(1, attention->num_attention_heads, cache.head_dim);
      needs.head_dim = std::max(needs.head_dim, cache.head_dim);
      needs.partials = std::max(needs.partials, splits * each);
    }
    const auto* linear = std::get_if<LinearOp>(&op.kind);
    if (linear == nullptr) continue;
    const Weight& weight = program.weights[linear->weight];
    const size_t normed = linear->norm.present() ? weight.columns : 0;
    needs.swiglu = needs.swiglu || linear->swiglu;
    if (weight.quantized()) {
      const kernels::PackedWeight packed = weight.packed(nullptr);
      const size_t outputs = kMatvecRows * packed.blocks() * kBlockRows;
      const size_t parts = linear->swiglu ? 1 : column_parts(packed, threads);
      needs.columns = std::max(needs.columns, packed.columns);
      needs.sums = std::max(needs.sums, parts > 1 ? parts * outputs : 0);
      needs.normed_columns = std::max(needs.normed_columns, normed);
    } else {
      needs.float_columns = std::max(needs.float_columns, normed);
    }
  }
  return needs;
}

/// Pieces of memory one behind the other, each at a line's start.
class Layout {
 public:
  size_t add(size_t bytes) {
    const size_t offset = size_;
    size_ += round_up(bytes, kLineBytes);
    return offset;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

}  // namespace

size_t column_parts(const kernels::PackedWeight& weight, size_t threads) {
  const bool exact = weight.format == kernels::WeightFormat::kInt4TwoLevel ||
                     weight.format == kernels::WeightFormat::kInt8;
  const size_t blocks = weight.blocks();
  if (!exact || blocks >= threads) return 1;
  const size_t steps = divide_up(weight.columns, kernels::column_step(weight));
  size_t best = 1, longest = 1;  // parts of a block that the busiest thread computes
  for (size_t parts = 2; parts <= std::min(steps, threads); ++parts) {
    const size_t most = divide_up(blocks * parts, threads);
    if (most * best < longest * parts) best = parts, longest = most;
  }
  return best;
}

size_t swiglu_pairs(size_t rows) { return rows <= kMatvecRows ? kMatvecPairs : 1; }

/// Fills in a Workspace.
class Planner {
 public:
  Planner(const Program& program, const kernels::Variant& kernels, size_t threads)
      : program_(program),
        tile_(kernels.tile),
        threads_(threads),
        needs_(find_needs(program, threads)) {}

  Result<Workspace> plan() {
    find_bound();
    space_.tile_ = tile_;
    space_.chunk_rows_ = choose_rows();
    Layout layout;
    const std::vector<size_t> slots = place_slots(&layout);
    place_shared(&layout);
    place_thread();
    space_.threads_ = layout.add(threads_ * space_.thread_bytes_);
    space_.pages_ = Pages::allocate(layout.size(), Pages::Kind::kHuge);
    if (!space_.pages_.valid()) {
      return Status::error("the CPU delegate's " + std::to_string(layout.size()) +
                           " bytes of activations do not fit into memory: free some");
    }
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      uint8_t* data = space_.pages_.data() + slots[slot];
      space_.slots_.push_back(space_.bound_[slot] ? nullptr : reinterpret_cast<float*>(data));
    }
    return std::move(space_);
  }

 private:
  /// Outputs that are not inputs as well are written where the caller wants them.
  void find_bound() {
    space_.bound_.assign(program_.slots.size(), false);
    for (const Value& value : program_.outputs) space_.bound_[value.slot] = true;
    for (const Value& value : program_.inputs) {
      if (value.role == Role::kRows) space_.bound_[value.slot] = false;
    }
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const size_t width = program_.slots[slot].width;
      space_.strides_.push_back(space_.bound_[slot] ? width : padded_stride(width));
    }
  }

  size_t choose_rows() const {
    size_t bytes = needs_.columns + needs_.columns / kColumnStep * sizeof(int32_t) +
                   needs_.float_columns * sizeof(float);
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      if (space_.bound_[slot] || program_.slots[slot].one_row) continue;
      bytes += space_.strides_[slot] * sizeof(float);
    }
    const size_t most = round_up(kChunkRows, tile_.mr);
    const size_t fitting = bytes > 0 ? kMostBytes / bytes / tile_.mr * tile_.mr : most;
    return std::clamp(fitting, kMatvecRows, most);
  }

  std::vector<size_t> place_slots(Layout* layout) const {
    std::vector<size_t> offsets;
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const size_t rows = program_.slots[slot].one_row ? 1 : space_.chunk_rows_;
      const size_t bytes = rows * space_.strides_[slot] * sizeof(float);
      offsets.push_back(layout->add(space_.bound_[slot] ? 0 : bytes));
    }
    return offsets;
  }

  void place_shared(Layout* layout) {
    // A tile of matvec may be wider than one of matmul: room for either.
    const size_t rows = round_up(space_.chunk_rows_, std::max(tile_.mr, kMatvecRows));
    space_.values_ = layout->add(rows * needs_.columns);
    space_.group_bias_ = layout->add(rows * needs_.columns / kColumnStep * sizeof(int32_t));
    space_.params_ = layout->add(rows * sizeof(kernels::RowParams));
    space_.sums_ = layout->add(needs_.sums * sizeof(int32_t));
    space_.partials_ = layout->add(needs_.partials * sizeof(float));
    space_.normed_ = layout->add(space_.chunk_rows_ * needs_.float_columns * sizeof(float));
  }

  void place_thread() {
    Layout layout;
    space_.row_values_ = layout.add(needs_.columns);
    space_.row_group_bias_ = layout.add(needs_.columns / kColumnStep * sizeof(int32_t));
    space_.row_params_ = layout.add(sizeof(kernels::RowParams));
    space_.row_normed_ = layout.add(needs_.float_columns * sizeof(float));
    const size_t norm = std::max(tile_.mr, kMatvecRows) * needs_.normed_columns * sizeof(float);
    const size_t pairs = std::max(space_.chunk_rows_ * swiglu_pairs(space_.chunk_rows_),
                                  kMatvecRows * swiglu_pairs(kMatvecRows));
    const size_t product = round_up(kernels::linear_scratch_bytes(needs_.columns), kLineBytes) +
                           (needs_.swiglu ? pairs * 2 * kBlockRows * sizeof(float) : 0);
    const size_t attention = kernels::attention_scratch_size(needs_.head_dim) * sizeof(float);
    space_.scratch_ = layout.add(std::max({norm, product, attention}));
    space_.thread_bytes_ = layout.size();
  }

  const Program& program_;
  const kernels::Tile tile_;
  const size_t threads_;
  const Needs needs_;
  Workspace space_;
};

Result<Workspace> Workspace::plan(const Program& program, const kernels::Variant& kernels,
                                  size_t threads) {
  return Planner(program, kernels, threads).plan();
}

kernels::QuantizedRows Workspace::quantized(size_t rows, size_t columns, size_t thread) const {
  const bool single = rows == 1;
  uint8_t* memory = single ? thread_memory(thread) : pages_.data();
  const kernels::Tile tile = rows <= kMatvecRows ? kernels::matvec_tile(rows) : tile_;
  return {reinterpret_cast<int8_t*>(memory + (single ? row_values_ : values_)),
          reinterpret_cast<kernels::RowParams*>(memory + (single ? row_params_ : params_)),
          reinterpret_cast<int32_t*>(memory + (single ? row_group_bias_ : group_bias_)),
          rows,
          columns,
          tile};
}

float* Workspace::normed(size_t rows, size_t thread) const {
  return reinterpret_cast<float*>(rows == 1 ? thread_memory(thread) + row_normed_
                                            : pages_.data() + normed_);
}

}  // namespace thimble::cpu
