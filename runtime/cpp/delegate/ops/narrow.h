#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Some rows of each sample.
struct NarrowOp {
  uint32_t input;
  uint32_t output;
  uint32_t first;
  uint32_t step;

  static constexpr const char* kName = "Narrow";
  static constexpr bool kPerSegment = false;
  static NarrowOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_whole(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
