#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Rotation: the heads of each row by the angles of its position.
struct RotateOp {
  uint32_t input;
  uint32_t output;
  uint32_t num_heads;
  Floats cosines;
  Floats sines;

  static constexpr const char* kName = "Rotate";
  static constexpr bool kPerSegment = true;
  static RotateOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_row(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
