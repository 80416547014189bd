#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// xIELU of every number, an activation with three learned numbers.
struct XieluOp {
  uint32_t input;
  uint32_t output;
  float alpha_p;
  float alpha_n;
  float beta;

  static constexpr const char* kName = "Xielu";
  static constexpr bool kPerSegment = false;
  static XieluOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
