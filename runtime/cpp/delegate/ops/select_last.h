#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Selection of the call's last row.
struct SelectLastOp {
  uint32_t input;
  uint32_t output;

  static constexpr const char* kName = "SelectLast";
  static constexpr bool kPerSegment = false;
  static SelectLastOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
