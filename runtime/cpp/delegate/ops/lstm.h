#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// The steps of a long short-term memory over the rows of each sample.
struct LstmOp {
  uint32_t input;
  uint32_t output;
  uint32_t weight;
  uint32_t hidden;
  uint32_t cell;
  bool stateful;  ///< whether hidden and cell are read
  bool reverse;

  static constexpr const char* kName = "Lstm";
  static constexpr bool kPerSegment = false;
  static LstmOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
