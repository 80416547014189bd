#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Embedding: the rows of the embedding matrix, by token.
struct EmbeddingOp {
  uint32_t weight;
  uint32_t output;
  uint32_t rotated = 0;  ///< size of the blocks that are rotated back; 0: none are

  static constexpr const char* kName = "Embedding";
  static constexpr bool kPerSegment = false;
  static EmbeddingOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const { return heights->is_whole(output); }
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
