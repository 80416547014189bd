#pragma once

#include <vector>

#include "delegate/ops/low_rank.h"
#include "delegate/ops/rows.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

/// The products of the call's adapter in one linear, on one thread. Without an adapter, or with one
/// that leaves this linear as it is, nothing is computed.
class LowRankProducts {
 public:
  /// \param columns of the linear's input.
  LowRankProducts(const std::vector<LowRank>& parts, size_t columns, OpRows rows,
                  OpContext& context);

  bool any() const { return width_ > 0; }
  /// Computes t = scale * (x a^T) of rows first .. first + count - 1 of the op, which are at `x`.
  void shrink(const float* x, size_t x_stride, size_t first, size_t count) const;
  /// Adds t b to outputs `columns` of all rows; `y` is the first row's output 0.
  void expand(Range columns, float* y, size_t y_stride) const;
  /// The same for pairs of blocks of a gated linear, gate and up; `y` is the first pair's first
  /// output.
  void expand_pairs(Range pairs, float* y, size_t y_stride) const;
  /// Numbers of the adapter that each product reads.
  size_t shrink_numbers() const { return width_ * columns_; }
  size_t expand_numbers() const;

 private:
  template <typename Visit>
  void each(Visit visit) const;

  const std::vector<LowRank>& parts_;
  const size_t columns_;
  const OpRows rows_;
  OpContext& context_;
  size_t width_ = 0;  ///< of t: the ranks side by side
  float* t_ = nullptr;
};

}  // namespace thimble::cpu
