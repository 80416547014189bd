#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// RMSNorm of rows, or of each of their heads.
struct NormOp {
  uint32_t input;
  uint32_t output;
  Floats weight;
  float eps;
  uint32_t num_heads;

  static constexpr const char* kName = "Norm";
  static constexpr bool kPerSegment = false;
  static NormOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_row(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
