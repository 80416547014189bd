#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// The gated delta rule, which keeps the last inputs of its convolution and a matrix for each head.
struct DeltaOp {
  uint32_t qkv;
  uint32_t a;
  uint32_t b;
  uint32_t output;
  uint32_t inputs;
  uint32_t state;
  uint32_t num_key_heads;
  uint32_t key_head_dim;
  uint32_t num_value_heads;
  uint32_t value_head_dim;
  Floats weight;
  Floats a_log;
  Floats dt_bias;

  static constexpr const char* kName = "Delta";
  static constexpr bool kPerSegment = true;
  static DeltaOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant& kernels,
                       size_t threads) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
