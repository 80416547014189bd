#pragma once

#include <cstddef>
#include <cstdint>

/// The arithmetic of attention over a cache: pure functions on plain memory, no allocation, no
/// threads. One source, attention_kernel.cpp, compiled once per instruction set.
namespace thimble {

/// The most query rows (positions times the heads of one group) in a block, unless a single
/// position's group is larger.
inline constexpr int64_t kAttentionRows = 64;
/// Keys that are read at once.
inline constexpr int64_t kAttentionKeys = 64;
/// Rows and head_dim are padded to this in scratch memory: the widest vector, in floats.
inline constexpr int64_t kAttentionPadding = 16;

/// Consecutive query positions, all their heads that share one key/value head, and that head.
struct AttentionBlock {
  const float* query;  ///< (num_queries, group, head_dim), positions `query_stride` floats apart
  const float* key;    ///< (num_keys, head_dim), rows `cache_stride` floats apart
  const float* value;  ///< as key
  float* out;          ///< as query
  int64_t query_stride;
  int64_t cache_stride;
  int64_t num_queries;
  int64_t group;
  int64_t head_dim;
  int64_t first_num_keys;  ///< keys that the first query attends to: 0 .. first_num_keys - 1
  int64_t key_step;     ///< how many more keys each following query attends to: 1 if causal, else 0
  float scale;          ///< multiplies query x key
  const float* mask;    ///< (num_queries, keys), added to the scores; null: none
  int64_t mask_stride;  ///< distance between the rows of two queries
};

/// One instruction set's attention.
struct AttentionKernel {
  const char* name;
  /// Computes out = softmax(scale * query * key^T) * value for one block. `scratch` holds
  /// attention_scratch_floats() floats of any content.
  void (*attend)(const AttentionBlock& block, float* scratch);
};

/// `count` rounded up to kAttentionPadding.
constexpr int64_t attention_padded(int64_t count) {
  return (count + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
}

/// Scratch memory of AttentionKernel::attend for a block of `rows` (num_queries * group) rows.
constexpr int64_t attention_scratch_floats(int64_t rows, int64_t head_dim) {
  const int64_t padded_rows = attention_padded(rows);
  const int64_t padded_dim = attention_padded(head_dim);
  return 2 * padded_rows * padded_dim    // query, transposed; the output before division
         + kAttentionKeys * padded_rows  // scores
         + kAttentionKeys * padded_dim   // a tile of values
         + 4 * padded_rows;              // largest score, sum, correction, number of keys
}

}  // namespace thimble
