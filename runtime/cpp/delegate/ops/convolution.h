#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// A gated short convolution, which keeps the last products of its input's parts.
struct ConvolutionOp {
  uint32_t input;
  uint32_t output;
  uint32_t state;
  Floats weight;
  Floats bias;

  static constexpr const char* kName = "Convolution";
  static constexpr bool kPerSegment = true;
  static ConvolutionOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
