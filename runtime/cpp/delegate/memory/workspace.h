#pragma once

#include <vector>

#include "delegate/program/program.h"
#include "kernels/kernels.h"
#include "platform/pages.h"

namespace thimble::cpu {

/// All memory that calls work in, planned once: slots for a chunk of rows, quantized activations,
/// and each thread's own memory.
class Workspace {
 public:
  /// Plans for chunks of as many rows as keep the memory small, and of `together` at least.
  static Result<Workspace> plan(const Program& program, const kernels::Variant& kernels,
                                size_t threads, size_t together = 0);

  /// Most rows of a call that are run together.
  size_t chunk_rows() const { return chunk_rows_; }
  /// Most segments of a call that are run together, where they are run as a whole.
  size_t chunk_segments() const { return chunk_segments_; }

  /// Whether a slot is in the caller's memory and not here.
  bool is_bound(size_t slot) const { return bound_[slot]; }
  /// [chunk_rows][stride], or those of the segments or that get logits; null where it is bound.
  float* slot(size_t slot) const { return slots_[slot]; }
  /// From one row of a slot to the next, in floats.
  size_t stride(size_t slot) const { return strides_[slot]; }

  /// Where activations quantized for a weight go. A single row goes to the thread's own memory:
  /// every thread prepares it for itself.
  kernels::QuantizedRows quantized(size_t rows, const kernels::PackedWeight& weight,
                                   size_t thread) const;
  /// Where normed rows go that are not quantized, likewise.
  float* normed(size_t rows, size_t thread) const;
  /// Where rows go between the two products of an adapter, likewise.
  float* shrunk(size_t rows, size_t thread) const;
  /// Memory that all threads share for the length of an op.
  uint8_t* shared() const { return pages_.data() + shared_; }
  /// Memory of a thread for the length of one part of an op.
  uint8_t* scratch(size_t thread) const { return thread_memory(thread) + scratch_; }
  /// Where the integers of a product go whose columns are cut into column_parts().
  int32_t* sums() const { return reinterpret_cast<int32_t*>(pages_.data() + sums_); }
  /// Where the parts of attention to one position's query go that are computed apart.
  float* partials() const { return reinterpret_cast<float*>(pages_.data() + partials_); }

 private:
  friend class Planner;
  uint8_t* thread_memory(size_t thread) const {
    return pages_.data() + threads_ + thread * thread_bytes_;
  }

  platform::Pages pages_;
  size_t chunk_rows_ = 0, chunk_segments_ = 0;
  const kernels::Variant* kernels_ = nullptr;
  std::vector<bool> bound_;
  std::vector<float*> slots_;
  std::vector<size_t> strides_;
  // Offsets into the pages.
  size_t values_ = 0, params_ = 0, group_bias_ = 0, group_scales_ = 0, normed_ = 0, shrunk_ = 0,
         sums_ = 0, partials_ = 0, shared_ = 0, threads_ = 0;
  // And into the memory of a thread.
  size_t thread_bytes_ = 0;
  size_t row_values_ = 0, row_params_ = 0, row_group_bias_ = 0, row_group_scales_ = 0,
         row_normed_ = 0, row_shrunk_ = 0, scratch_ = 0;
};

}  // namespace thimble::cpu
