#pragma once

/// \file
/// The KV cache of one key/value head, and attention over it.
///
///     keys    [ceil(capacity / 16)][head_dim][16]     16 positions side by side
///     values  [capacity][head_dim padded to 16]
///
/// of float16 or float32. Scores of 16 positions come from one vector of each dimension, outputs
/// of 16 dimensions from one vector of each position: no sum runs across lanes.

#include "kernels/layout.h"

namespace thimble::kernels {

enum class CacheType : uint8_t { kFloat16 = 0, kFloat32 = 1 };

constexpr size_t kCacheLanes = 16;

constexpr size_t key_cache_size(size_t capacity, size_t head_dim) {
  return round_up(capacity, kCacheLanes) * head_dim;
}
constexpr size_t value_cache_size(size_t capacity, size_t head_dim) {
  return capacity * round_up(head_dim, kCacheLanes);
}

/// Writes one head's key and value at a position, rounded to nearest, ties to even.
struct CacheWriteArgs {
  const float* key;  ///< [head_dim]
  const float* value;
  size_t head_dim;
  size_t position;
  CacheType type;
  void* keys;  ///< aligned to 64
  void* values;
};

/// Causal attention of the query heads that share one key/value head:
/// softmax(scale * q . keys) . values over positions 0 .. start_pos + token, the call's own
/// positions already written. Online softmax (Milakov and Gimelshein, 2018) over tiles of
/// kAttentionTile positions: a tile rescales what came before by exp(old maximum - new maximum).
/// Dot products are fused chains in the order of dimensions, outputs in the order of positions.
struct AttentionArgs {
  const float* q;   ///< [tokens][heads][head_dim], tokens q_stride apart
  size_t q_stride;  ///< in floats
  size_t tokens;
  size_t heads;
  size_t head_dim;
  size_t start_pos;
  float scale;
  CacheType type;
  const void* keys;
  const void* values;
  float* out;  ///< as q
  size_t out_stride;
  float* scratch;  ///< attention_scratch_size() floats, aligned to 64, this call's own
};

constexpr size_t kAttentionTile = 64;
constexpr size_t kMostAttentionRows = 8;
constexpr size_t attention_scratch_size(size_t head_dim) {
  return kMostAttentionRows * (head_dim + round_up(head_dim, kCacheLanes) + kAttentionTile);
}

}  // namespace thimble::kernels
