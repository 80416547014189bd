#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// A gated unit: activation(gate) * up.
struct GluOp {
  uint32_t gate;
  uint32_t up;
  uint32_t output;
  kernels::Function activation;

  static constexpr const char* kName = "Glu";
  static constexpr bool kPerSegment = false;
  static GluOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const {
    return heights->of(gate) == heights->of(up) && heights->by_row(gate, output);
  }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
