#pragma once

/// \file
/// Attention to whole texts, without a cache.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

/// softmax(scale * q . keys) . values of one head, for queries `first` to before `last` of a text.
/// Online softmax as in attention(), over tiles of kTextTile positions. Dot products are fused
/// chains in the order of dimensions, sums of weights and outputs in the order of positions;
/// positions that a query does not see add nothing. A query whose biases are all -inf gets zeros.
///
/// With integers each query and each key is rounded to int8 as keys of a cache are, and so is each
/// column of the values of a tile. A score is float(the integers' dot product) * (the key's scale *
/// (the query's * scale * log2(e))). A tile's weights w = 255 * 2^(score - its largest) are
/// rounded: with 2^(its largest - the largest so far) as its factor, sums = fused(sum of w, factor,
/// sums before), outputs = fused(float(rounded w . values), the column's scale * factor, outputs
/// before).
struct TextAttentionArgs {
  const float* q;  ///< of the text's first row; [rows][head_dim], rows q_stride floats apart
  size_t q_stride;
  const float* k;  ///< as q
  size_t k_stride;
  const float* v;  ///< as q
  size_t v_stride;
  float* out;  ///< as q
  size_t out_stride;
  size_t rows;   ///< of k and v
  size_t first;  ///< row of q and out
  size_t last;
  size_t head_dim;
  float scale;
  size_t window;      ///< positions that a query sees, its own and those before; 0: all of them
  size_t after;       ///< how many it sees behind its own
  const float* bias;  ///< added to scores; [rows of q][rows of k], or null
  size_t bias_stride;
  float* scratch;         ///< text_attention_scratch_size() floats, aligned to 64
  bool integers = false;  ///< bias is null
};
constexpr size_t kTextTile = 64;
/// Queries that go through a text together, at most: the smallest work of a thread.
constexpr size_t kTextAttentionRows = 32;
/// The same of integers: they are worth more, since each rounds the keys and values anew.
constexpr size_t kTextIntegerRows = 1024;
/// Floats for a query's state, and for the keys and values of a tile, as integers.
constexpr size_t text_query_size(size_t head_dim) { return head_dim + divide_up(head_dim, 4) + 3; }
constexpr size_t text_tile_size(size_t head_dim) {
  const size_t padded = round_up(head_dim, kBlockRows);
  return kTextTile * (2 + padded) + (2 + kBlockRows) * padded;
}
constexpr size_t text_attention_scratch_size(size_t head_dim, bool integers) {
  if (!integers) return (2 * head_dim + 2 * kTextTile) * kTextAttentionRows;
  return kTextIntegerRows * text_query_size(head_dim) + text_tile_size(head_dim) +
         (kTextTile + kTextTile / 4) * kTextAttentionRows;
}

}  // namespace thimble::kernels
