#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Rows plus the row of a table for each one's position.
struct PositionsOp {
  uint32_t input;
  uint32_t weight;
  uint32_t output;

  static constexpr const char* kName = "Positions";
  static constexpr bool kPerSegment = true;
  static PositionsOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
