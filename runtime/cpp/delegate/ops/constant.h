#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// The rows of a weight, the same for each sample.
struct ConstantOp {
  uint32_t weight;
  uint32_t output;

  static constexpr const char* kName = "Constant";
  static constexpr bool kPerSegment = false;
  static ConstantOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->is_whole(output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
