#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Some neighbouring columns of each row.
struct ColumnsOp {
  uint32_t input;
  uint32_t output;
  uint32_t first;

  static constexpr const char* kName = "Columns";
  static constexpr bool kPerSegment = false;
  static ColumnsOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_row(input, output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
