#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Products of queries with what a weight has for their distance to each row of the sample.
struct RelativeScoresOp {
  uint32_t input;
  uint32_t output;
  uint32_t weight;

  static constexpr const char* kName = "RelativeScores";
  static constexpr bool kPerSegment = false;
  static RelativeScoresOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->by_part(input, output); }
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
