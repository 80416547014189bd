#pragma once

#include <cstdint>

#include "llama_ops/attention_kernel.h"

namespace thimble {

/// Attention of new positions over a cache that already holds them. All tensors are float32,
/// contiguous.
struct Attention {
  int64_t batch;
  int64_t seq_len;    ///< new positions
  int64_t num_heads;  ///< a multiple of num_key_value_heads
  int64_t num_key_value_heads;
  int64_t head_dim;
  int64_t cache_len;  ///< capacity of a cache in positions, at least start_pos + seq_len
  int64_t start_pos;  ///< positions before this call
  bool causal;        ///< position i sees keys 0 .. start_pos + i, else all of them
  float scale;

  const float* query;  ///< (batch, seq_len, num_heads, head_dim)
  const float* key;    ///< (batch, cache_len, num_key_value_heads, head_dim)
  const float* value;  ///< as key
  float* out;          ///< as query

  const float* mask = nullptr;  ///< (seq_len, mask_len): added to the scores; null: none
  int64_t mask_len = 0;         ///< at least start_pos + seq_len
};

/// Returns how many threads, at most `available`, make `attention` faster.
int64_t attention_workers(const Attention& attention, int64_t available);

/// Floats of scratch memory that `workers` threads need together.
int64_t attention_scratch_floats(const Attention& attention, int64_t workers);

/// Computes attention.out on ExecuTorch's thread pool.
void attend(const Attention& attention, const AttentionKernel& kernel, int64_t workers,
            float* scratch);

}  // namespace thimble
