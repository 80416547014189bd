#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Attention: norms and rotation of heads, the update of the cache, and attention itself.
struct AttentionOp {
  uint32_t query;
  uint32_t query_offset;
  uint32_t key;
  uint32_t key_offset;
  uint32_t value;
  uint32_t value_offset;
  uint32_t output;
  uint32_t num_attention_heads;
  uint32_t cache;
  float scale;
  Floats query_norm;
  Floats key_norm;
  float norm_eps;
  Floats cosines;
  Floats sines;
  uint32_t window;
  float soft_cap;
  Floats sinks;
  bool shared = false;  ///< not in the schema: keys and values are another op's, and in its cache

  static constexpr const char* kName = "Attention";
  static constexpr bool kPerSegment = true;
  static AttentionOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant& kernels,
                       size_t threads) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
