#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// A function of each number of one slot, or of two. A product's other slot may have fewer columns:
/// each multiplies an equal part of a row.
struct ElementwiseOp {
  kernels::Function function;
  uint32_t input;
  uint32_t other;
  uint32_t output;
  float number;

  static constexpr const char* kName = "Elementwise";
  static constexpr bool kPerSegment = false;
  static ElementwiseOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const {
    const bool alone = !kernels::is_binary(function);
    return (alone || heights->of(other) == heights->of(input)) && heights->by_row(input, output);
  }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;

 private:
  void multiply_parts(OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
