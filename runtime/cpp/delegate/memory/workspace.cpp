#include "delegate/memory/workspace.h"

#include <algorithm>

#include "delegate/session/segments.h"

namespace thimble::cpu {
namespace {

using kernels::kBlockRows;
using kernels::kColumnStep;
using kernels::kLineBytes;
using kernels::kMatvecRows;
using kernels::round_up;

/// Beside the values, of each kColumnStep of a quantized row: their bias and, at most, a scale.
constexpr size_t kStepBytes = sizeof(int32_t) + sizeof(float);
/// Rows of a chunk: enough that unpacking weights costs little compared with multiplying them.
constexpr size_t kChunkRows = 256;
/// What slots and quantized activations may take together, unless kMatvecRows take more.
constexpr size_t kMostBytes = size_t{24} << 20;
/// Rows that lie a multiple of this apart share a few sets of the caches.
constexpr size_t kConflictBytes = 4096;

size_t padded_stride(size_t width) {
  return width * sizeof(float) % kConflictBytes == 0 ? width + kBlockRows : width;
}

/// The largest of what any op of a program needs.
WorkspaceNeeds find_needs(const Program& program, const kernels::Variant& kernels, size_t threads) {
  WorkspaceNeeds needs;
  for (const Op& op : program.ops) {
    needs.include(std::visit(
        [&](const auto& kind) { return kind.needs(program, kernels, threads); }, op.kind));
  }
  return needs;
}

/// Pieces of memory one behind the other, each at a line's start; SIZE_MAX if that is too much.
class Layout {
 public:
  size_t add(size_t bytes) {
    const size_t offset = size_;
    const bool fits = size_ <= kMost && bytes <= kMost - size_;
    size_ = fits ? size_ + round_up(bytes, kLineBytes) : SIZE_MAX;
    return offset;
  }
  size_t size() const { return size_; }

 private:
  static constexpr size_t kMost = SIZE_MAX / 2;
  size_t size_ = 0;
};

}  // namespace

void WorkspaceNeeds::include(const WorkspaceNeeds& other) {
  columns = std::max(columns, other.columns);
  normed_columns = std::max(normed_columns, other.normed_columns);
  shrunk = std::max(shrunk, other.shrunk);
  sums = std::max(sums, other.sums);
  partials = std::max(partials, other.partials);
  shared = std::max(shared, other.shared);
  shared_per_row = std::max(shared_per_row, other.shared_per_row);
  scratch = std::max(scratch, other.scratch);
  scratch_per_row = std::max(scratch_per_row, other.scratch_per_row);
}

/// Fills in a Workspace.
class Planner {
 public:
  Planner(const Program& program, const kernels::Variant& kernels, size_t threads, size_t together)
      : program_(program),
        kernels_(kernels),
        tile_(kernels.tile),
        threads_(threads),
        together_(together),
        needs_(find_needs(program, kernels, threads)) {}

  Result<Workspace> plan() {
    find_bound();
    space_.kernels_ = &kernels_;
    choose_rows();
    Layout layout;
    const std::vector<size_t> slots = place_slots(&layout);
    place_shared(&layout);
    place_thread();
    space_.threads_ = layout.size();
    for (size_t thread = 0; thread < threads_; ++thread) layout.add(space_.thread_bytes_);
    space_.pages_ = platform::Pages::allocate(layout.size(), platform::Pages::Kind::kHuge);
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
  /// Outputs that are not also inputs are written directly to the caller's memory. Inputs are read
  /// there, unless an op writes to their slot, or rows so far apart are slow to read.
  void find_bound() {
    std::vector<bool> written(program_.slots.size(), false);
    for (const Value& value : program_.outputs) written[value.slot] = true;
    space_.bound_ = written;
    for (const Op& op : program_.ops) {
      written[std::visit([](const auto& kind) { return kind.output; }, op.kind)] = true;
    }
    for (const Value& value : program_.inputs) {
      if (value.role != Role::kRows) continue;
      const size_t width = program_.slots[value.slot].width;
      space_.bound_[value.slot] = !written[value.slot] && padded_stride(width) == width;
    }
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const size_t width = program_.slots[slot].width;
      space_.strides_.push_back(space_.bound_[slot] ? width : padded_stride(width));
    }
  }

  void choose_rows() {
    if (program_.by_sample) return choose_samples();
    size_t bytes = needs_.columns + needs_.columns / kColumnStep * kStepBytes +
                   (needs_.normed_columns + needs_.shrunk) * sizeof(float) + needs_.shared_per_row;
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      if (space_.bound_[slot] || !program_.slots[slot].has_all_rows()) continue;
      bytes += space_.strides_[slot] * sizeof(float);
    }
    const size_t most = round_up(kChunkRows, tile_.mr);
    const size_t fitting = bytes > 0 ? kMostBytes / bytes / tile_.mr * tile_.mr : most;
    size_t rows = std::clamp(fitting, kMatvecRows, most);
    for (const CacheShape& cache : program_.caches) rows = std::min(rows, cache.most_rows());
    rows = std::max(rows, together_);
    space_.chunk_rows_ = program_.needs_segments ? std::max(rows, program_.num_positions) : rows;
    space_.chunk_segments_ = std::min(kMostLastRows, space_.chunk_rows_);
  }

  /// The same of a program by sample: as many samples as fit, and the rows of their highest slot.
  void choose_samples() {
    size_t bytes = 0, highest = 1;
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const size_t height = program_.slots[slot].height;
      highest = std::max(highest, height);
      if (!space_.bound_[slot]) bytes += height * space_.strides_[slot] * sizeof(float);
    }
    const size_t fitting = kMostBytes / std::max<size_t>(bytes, 1);
    space_.chunk_segments_ = std::clamp<size_t>(fitting, 1, kMostLastRows);
    space_.chunk_rows_ = space_.chunk_segments_ * highest;
  }

  std::vector<size_t> place_slots(Layout* layout) const {
    std::vector<size_t> offsets;
    for (size_t slot = 0; slot < program_.slots.size(); ++slot) {
      const Slot& kept = program_.slots[slot];
      const size_t rows = kept.has_all_rows()
                              ? space_.chunk_rows_
                              : space_.chunk_segments_ * std::max<size_t>(kept.height, 1);
      const size_t bytes = rows * space_.strides_[slot] * sizeof(float);
      offsets.push_back(layout->add(space_.bound_[slot] ? 0 : bytes));
    }
    return offsets;
  }

  void place_shared(Layout* layout) {
    // Room for tiles of matvec and of matmul.
    const size_t rows =
        std::max(round_up(space_.chunk_rows_, tile_.mr), round_up(space_.chunk_rows_, kMatvecRows));
    space_.values_ = layout->add(rows * needs_.columns);
    space_.group_bias_ = layout->add(rows * needs_.columns / kColumnStep * sizeof(int32_t));
    space_.group_scales_ = layout->add(rows * needs_.columns / kColumnStep * sizeof(float));
    space_.params_ = layout->add(rows * sizeof(kernels::RowParams));
    space_.sums_ = layout->add(needs_.sums * sizeof(int32_t));
    space_.partials_ = layout->add(needs_.partials * sizeof(float));
    space_.normed_ = layout->add(space_.chunk_rows_ * needs_.normed_columns * sizeof(float));
    space_.shared_ = layout->add(needs_.shared + space_.chunk_rows_ * needs_.shared_per_row);
    space_.shrunk_ = layout->add(space_.chunk_rows_ * needs_.shrunk * sizeof(float));
  }

  void place_thread() {
    Layout layout;
    space_.row_values_ = layout.add(needs_.columns);
    space_.row_group_bias_ = layout.add(needs_.columns / kColumnStep * sizeof(int32_t));
    space_.row_group_scales_ = layout.add(needs_.columns / kColumnStep * sizeof(float));
    space_.row_params_ = layout.add(sizeof(kernels::RowParams));
    space_.row_normed_ = layout.add(needs_.normed_columns * sizeof(float));
    space_.row_shrunk_ = layout.add(needs_.shrunk * sizeof(float));
    space_.scratch_ = layout.add(needs_.scratch + space_.chunk_rows_ * needs_.scratch_per_row);
    space_.thread_bytes_ = layout.size();
  }

  const Program& program_;
  const kernels::Variant& kernels_;
  const kernels::Tile tile_;
  const size_t threads_, together_;
  const WorkspaceNeeds needs_;
  Workspace space_;
};

Result<Workspace> Workspace::plan(const Program& program, const kernels::Variant& kernels,
                                  size_t threads, size_t together) {
  return Planner(program, kernels, threads, together).plan();
}

kernels::QuantizedRows Workspace::quantized(size_t rows, const kernels::PackedWeight& weight,
                                            size_t thread) const {
  const bool single = rows == 1;
  uint8_t* memory = single ? thread_memory(thread) : pages_.data();
  return {reinterpret_cast<int8_t*>(memory + (single ? row_values_ : values_)),
          reinterpret_cast<kernels::RowParams*>(memory + (single ? row_params_ : params_)),
          reinterpret_cast<int32_t*>(memory + (single ? row_group_bias_ : group_bias_)),
          reinterpret_cast<float*>(memory + (single ? row_group_scales_ : group_scales_)),
          rows,
          weight.columns,
          kernels_->tile_of(rows),
          weight.input_group()};
}

float* Workspace::normed(size_t rows, size_t thread) const {
  return reinterpret_cast<float*>(rows == 1 ? thread_memory(thread) + row_normed_
                                            : pages_.data() + normed_);
}

float* Workspace::shrunk(size_t rows, size_t thread) const {
  return reinterpret_cast<float*>(rows == 1 ? thread_memory(thread) + row_shrunk_
                                            : pages_.data() + shrunk_);
}

}  // namespace thimble::cpu
