#pragma once

#include <cstddef>

#include "core/status.h"
#include "kernels/kernels.h"
#include "platform/pages.h"

namespace thimble::cpu {

/// The matrices before one of the last positions, the base, and the steps from there on: a state
/// between the two is computed again, which is much smaller than to keep the matrices after each.
/// The base follows the last position, 8 to 15 positions behind, or as many as there are.
class DeltaLog {
 public:
  using Replay = void (*)(const kernels::DeltaReplayArgs&);

  /// \param replay of the variant that computes the matrices.
  static Result<DeltaLog> allocate(const kernels::DeltaShape& shape, Replay replay);

  /// [heads][shape.matrix()].
  float* base() const { return reinterpret_cast<float*>(pages_.data()); }
  /// [kDeltaLogRows][heads][a step]: that of position p is in row p % kDeltaLogRows.
  float* steps() const { return base() + shape_.heads * shape_.matrix(); }

  /// The base's position once positions up to `end` are written.
  size_t base_after(size_t end) const;
  /// Does the steps of some heads from one position to another in their matrices.
  void replay(size_t from, size_t to, size_t first_head, size_t heads, float* matrices) const;
  /// Records that positions up to `end` were written.
  void set_written(size_t end);

  bool reaches(size_t length) const { return length >= base_position_; }
  /// Makes all matrices those of a position that it reaches.
  void return_to(size_t length, float* matrices);
  /// Begins at a position, with its matrices.
  void begin(size_t position, const float* matrices);

  Result<DeltaLog> copy() const;

 private:
  kernels::DeltaShape shape_;
  Replay replay_ = nullptr;
  platform::Pages pages_;
  size_t base_position_ = 0;
  size_t end_ = 0;
};

}  // namespace thimble::cpu
