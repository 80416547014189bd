#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// A norm of all numbers of a sample together: GroupNorm of one group.
struct SampleNormOp {
  uint32_t input;
  uint32_t output;
  Floats weight;
  Floats bias;
  float eps;

  static constexpr const char* kName = "SampleNorm";
  static constexpr bool kPerSegment = true;
  static SampleNormOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_row(input, output); }
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
