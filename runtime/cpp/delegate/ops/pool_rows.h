#pragma once

#include <vector>

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// The mean of some rows of a sample, or the largest number of each column.
struct PoolRowsOp {
  uint32_t input;
  uint32_t output;
  uint32_t count;
  bool largest;
  std::vector<uint32_t> indices;  ///< `count` rows of the input for each of the output's

  static constexpr const char* kName = "PoolRows";
  static constexpr bool kPerSegment = false;
  static PoolRowsOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_whole(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
