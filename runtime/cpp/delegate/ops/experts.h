#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// A mixture of experts: the sum over the experts that a row's scores choose, in the order of the
/// experts, of share * down(activation(gate(x)) * up(x)).
struct ExpertsOp {
  uint32_t input;
  uint32_t scores;
  uint32_t output;
  uint32_t up_weight;
  uint32_t down_weight;
  Floats up_bias;
  Floats down_bias;
  uint32_t num_experts_per_tok;
  bool normalized;
  kernels::Function activation;
  uint32_t up_rotated = 0;
  uint32_t down_rotated = 0;
  float limit = 0;  ///< of gate and up; 0: none
  bool sigmoid = false;
  Floats choice_bias;  ///< of sigmoids
  float share_scale = 1;

  static constexpr const char* kName = "Experts";
  static constexpr bool kPerSegment = false;
  static ExpertsOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant& kernels,
                       size_t threads) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
