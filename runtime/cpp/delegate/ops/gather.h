#pragma once

#include <vector>

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// The numbers of a sample in another order, in pieces of equal length.
struct GatherOp {
  uint32_t input;
  uint32_t output;
  uint32_t piece;                 ///< numbers that stay together
  std::vector<uint32_t> indices;  ///< of the input's pieces, for each of the output's

  static constexpr uint32_t kZeros = UINT32_MAX;  ///< an index: the piece is zeros
  static constexpr const char* kName = "Gather";
  static constexpr bool kPerSegment = false;
  static GatherOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  /// Whether the output's numbers are the input's in their order, in rows of another length.
  bool keeps_order() const;
  /// Whether each of so many rows of the output is made of equally many numbers of the input, which
  /// follow those of the row before, in the same way.
  bool repeats(size_t rows) const;
  bool shorten(Heights* heights) const;
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;

 private:
  /// Makes some rows, of pieces of one number, of an input whose rows follow each other.
  void copy_numbers(size_t first, size_t count, size_t output_height, OpContext& context) const;
};

}  // namespace thimble::cpu
