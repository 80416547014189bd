#pragma once

#include "delegate/ops/attention.h"
#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Attention over the cache of an earlier Attention of the call.
struct SharedAttentionOp {
  uint32_t query;
  uint32_t output;
  uint32_t num_attention_heads;
  uint32_t cache;
  float scale;
  Floats query_norm;
  float norm_eps;
  Floats cosines;
  Floats sines;
  uint32_t window;
  float soft_cap;

  static constexpr const char* kName = "SharedAttention";
  static constexpr bool kPerSegment = true;
  static SharedAttentionOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant& kernels,
                       size_t threads) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;

 private:
  AttentionOp attention() const;  ///< the same as one that writes nothing
};

}  // namespace thimble::cpu
