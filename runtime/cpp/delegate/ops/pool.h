#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// How the rows of a segment become one: the schema's Pooling.
enum class Pooling : uint8_t { kFirst, kLast, kMean };

/// One row for each segment.
struct PoolOp {
  uint32_t input;
  uint32_t output;
  Pooling pooling;

  static constexpr const char* kName = "Pool";
  static constexpr bool kPerSegment = true;
  static PoolOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program&, const kernels::Variant&, size_t) const { return {}; }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
