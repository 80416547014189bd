#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Two slots side by side, or the rows of one behind those of the other.
struct ConcatenateOp {
  uint32_t first;
  uint32_t second;
  uint32_t output;
  bool columns;

  static constexpr const char* kName = "Concatenate";
  static constexpr bool kPerSegment = false;
  static ConcatenateOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const {
    const size_t before = heights->of(first), behind = heights->of(second);
    if (columns) return before == behind && heights->by_row(first, output);
    return heights->set(output, before + behind);
  }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
