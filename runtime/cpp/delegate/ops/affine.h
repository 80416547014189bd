#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Each column times a number, plus a number.
struct AffineOp {
  uint32_t input;
  uint32_t output;
  Floats weight;
  Floats bias;

  static constexpr const char* kName = "Affine";
  static constexpr bool kPerSegment = false;
  static AffineOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_row(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
