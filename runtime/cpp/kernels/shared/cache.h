#pragma once

/// \file
/// The KV cache of one key/value head, and attention over it.
///
///     keys    [ceil(capacity / 16)][head_dim][16]     16 positions side by side
///     values  [capacity padded to 16][head_dim padded to 16]
///
/// of float16 or float32. Scores of 16 positions come from one vector of each
/// dimension, outputs of 16 dimensions from one vector of each position: no sum
/// runs across lanes. Of int8, both are in blocks of 16 positions, each after its
/// scales, in the order in which processors multiply four bytes at a time; keys are
/// stored plus 128, as some of them want one of two factors unsigned:
///
///     float scales[16];  uint8 keys[head_dim padded to 4 / 4][16][4]
///     float scales[16];  int8 values[16 / 4][head_dim padded to 16][4]
///
/// Of int4, a byte has two numbers, 0 to 15, the first in its low half: of a key those of four
/// columns and of the next four, of values those of 16 columns and of the next 16. The number n
/// stands for 2 n - 15 times the scale:
///
///     float scales[16];  uint8 keys[head_dim padded to 8 / 8][16][4]
///     float scales[16];  uint8 values[16 / 4][head_dim padded to 32 / 32][16][4]
///
/// In every type the first positions are in the first bytes. A ring with fewer rows than positions,
/// as for a sliding window, has the same layout: position p is in row p % rows.

#include "kernels/layout/layout.h"

namespace thimble::kernels {

enum class CacheType : uint8_t { kFloat16 = 0, kFloat32 = 1, kInt8 = 2, kInt4 = 3, kInt8Int4 = 4 };

/// The types of the keys and of the values of a cache: kInt8Int4 has keys of int8, which lose most
/// with fewer bits, and values of int4.
constexpr CacheType key_type(CacheType type) {
  return type == CacheType::kInt8Int4 ? CacheType::kInt8 : type;
}
constexpr CacheType value_type(CacheType type) {
  return type == CacheType::kInt8Int4 ? CacheType::kInt4 : type;
}

constexpr size_t kCacheLanes = 16;
/// Of int8: bytes that are multiplied together, and what a key's byte is more than the key.
constexpr size_t kCacheFour = 4;
constexpr int kCacheBias = 128;
/// Of int4: the largest magnitude of 2 n - 15.
constexpr int kCacheMostNibble = 15;

/// Whether a cache has integers, in blocks after their scales.
constexpr bool has_cache_scales(CacheType type) { return type >= CacheType::kInt8; }
/// Bits of a number of keys, or values, of a type.
constexpr size_t cache_bits(CacheType type) {
  constexpr size_t kBits[] = {16, 32, 8, 4};
  return kBits[static_cast<size_t>(type)];
}
/// Columns of keys whose numbers are beside each other.
constexpr size_t cache_key_columns(CacheType type) {
  return has_cache_scales(type) ? kCacheFour * 8 / cache_bits(type) : 1;
}
/// Bytes of the scales of 16 positions.
constexpr size_t cache_scale_bytes(CacheType type) {
  return has_cache_scales(type) ? kCacheLanes * sizeof(float) : 0;
}

/// Bytes of 16 positions of `columns` elements each, of keys.
constexpr size_t cache_block_bytes(CacheType type, size_t columns) {
  const size_t padded = round_up(columns, cache_key_columns(type));
  return cache_scale_bytes(type) + kCacheLanes * padded * cache_bits(type) / 8;
}
/// The columns of values that such blocks have.
constexpr size_t cache_value_columns(CacheType type, size_t head_dim) {
  return round_up(head_dim, type == CacheType::kInt4 ? 2 * kCacheLanes : kCacheLanes);
}

/// Bytes of the keys, or values, of the first `positions` positions, in whole
/// blocks of 16.
constexpr size_t key_cache_bytes(CacheType type, size_t positions, size_t head_dim) {
  return divide_up(positions, kCacheLanes) * cache_block_bytes(key_type(type), head_dim);
}
constexpr size_t value_cache_bytes(CacheType type, size_t positions, size_t head_dim) {
  type = value_type(type);
  return divide_up(positions, kCacheLanes) *
         cache_block_bytes(type, cache_value_columns(type, head_dim));
}

/// Writes one head's key and value at a position: floats rounded to nearest,
/// ties to even; int8 symmetric, scale = (largest magnitude) / 127, q =
/// round(clamp(x * (1 / scale), -127, 127)), all zero where the scale is below
/// the smallest normal. A NaN is ignored in the scale and becomes -127. int4: scale = (largest
/// magnitude) / 15, n = round(clamp(x * (7.5 / largest) + 7.5, 0, 15)), a NaN becomes 0.
struct CacheWriteArgs {
  const float* key;  ///< [head_dim]
  const float* value;
  size_t head_dim;
  size_t position;  ///< row of the cache
  CacheType type;
  void* keys;  ///< aligned to 64
  void* values;
};

/// Causal attention of the query heads that share one key/value head:
/// softmax(scale * q . keys) . values over positions 0 .. start_pos + token, or
/// the last `window` of them, and those behind up to the token's end, the call's own positions
/// already written. A soft cap makes cap * tanh(score / cap) of each score (Gemma 2, 2024, section
/// 2); a sink is one more score of the softmax, without a value (gpt-oss, 2025). Online softmax
/// (Milakov and Gimelshein, 2018) in powers of two over tiles of kAttentionTile positions: a tile
/// rescales what came before by 2^(old maximum - new maximum). Splits of kAttentionSplit positions
/// start with a new state and are combined in order, in the same way. Dot products are fused chains
/// in the order of dimensions, outputs in the order of positions; sums of weights run by position
/// % 16. Positions that a row must not attend to do not change its state. So a row's result depends
/// neither on the other rows of the call nor on which thread computes which split.
///
/// With a cache of integers the query is rounded to int8 as int8 keys are, and a score is
/// float(the integers' dot product) * (the key's scale * the query's). In a tile, the weights times
/// their values' scales become integers, w = round(clamp(weight / step, 0, 16383)), step = largest
/// / 16383, all zero where the step is below the smallest normal; outputs = fused(float(w .
/// values), step, outputs * factor).
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
  float* scratch;      ///< attention_scratch_size() floats, aligned to 64, this
                       ///< call's own
  size_t window = 0;   ///< positions that a query sees, its own included; 0: all
  size_t ring = 0;     ///< rows of the cache, a multiple of kAttentionTile: position p is in row
                       ///< p % ring; 0: a row for each position
  float soft_cap = 0;  ///< of scores; 0: none
  const float* sinks = nullptr;  ///< [heads], or null: none
  /// [tokens], one past the last position that each sees, none less than the one before; null: one
  /// past its own. Not of attention in splits.
  const uint32_t* ends = nullptr;

  /// One past the last position that the query of a token sees.
  constexpr size_t visible(size_t token) const {
    return ends == nullptr ? start_pos + token + 1 : ends[token];
  }
};

constexpr size_t kAttentionTile = 64;
constexpr size_t kAttentionSplit = 512;
/// Query rows that pass over a tile of positions, converted to float32 once, while it is in the
/// caches.
constexpr size_t kMostAttentionRows = 192;

/// Floats of a row's state between tiles: outputs not yet divided, lanes of the
/// sum of weights, the maximum in every lane.
constexpr size_t attention_state_size(size_t head_dim) {
  return round_up(head_dim, kCacheLanes) + 2 * kCacheLanes;
}
constexpr size_t attention_scratch_size(size_t head_dim) {
  const size_t row = round_up(head_dim, kCacheLanes) + 2 * attention_state_size(head_dim);
  return kMostAttentionRows * row +
         kAttentionTile * (kCacheLanes + 2 * round_up(head_dim, kCacheLanes));
}
/// The first position that a query at `position` sees.
constexpr size_t attention_first(size_t position, size_t window) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}
/// Splits of a call: the first that any row attends to, and the one past the last.
constexpr size_t attention_first_split(size_t start_pos, size_t window) {
  return attention_first(start_pos, window) / kAttentionSplit;
}
constexpr size_t attention_splits(size_t start_pos, size_t tokens) {
  return divide_up(start_pos + tokens, kAttentionSplit);
}
/// Floats that each split writes for all of the call's rows.
constexpr size_t attention_partial_size(size_t tokens, size_t heads, size_t head_dim) {
  return tokens * heads * attention_state_size(head_dim);
}

}  // namespace thimble::kernels
