#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// Attention among the rows of each segment, without a cache.
struct SegmentAttentionOp {
  uint32_t query;
  uint32_t query_offset;
  uint32_t key;
  uint32_t key_offset;
  uint32_t value;
  uint32_t value_offset;
  uint32_t output;
  uint32_t num_attention_heads;
  uint32_t num_key_value_heads;
  float scale;
  uint32_t window;
  uint32_t after;
  uint32_t max_seq_len;
  uint32_t parts = 0;  ///< of a sample, each by itself; 0: one
  uint32_t bias = 0;   ///< slot
  bool biased = false;
  bool bias_heads = false;
  bool bias_parts = false;
  bool integers = false;

  static constexpr const char* kName = "SegmentAttention";
  static constexpr bool kPerSegment = false;  // threads share the segments
  static SegmentAttentionOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  bool shorten(Heights* heights) const {
    const bool fits = heights->of(key) == heights->of(value) && count() == 1;
    const bool alike =
        !biased || (heights->has_part_of(key, query) && heights->has_part_of(bias, query));
    return fits && alike && heights->by_row(query, output);
  }
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  size_t count() const { return parts == 0 ? 1 : parts; }
  /// Queries of a head that a thread attends with at a time.
  size_t together() const {
    return integers ? kernels::kTextIntegerRows : kernels::kTextAttentionRows;
  }
  Work run(const Op& op, OpRows rows, OpContext& context) const;
};

}  // namespace thimble::cpu
