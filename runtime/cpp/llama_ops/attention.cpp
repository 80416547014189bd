#include "llama_ops/attention.h"

#include <executorch/runtime/kernel/thread_parallel_interface.h>

#include <algorithm>
#include <atomic>

namespace thimble {
namespace {

int64_t group_of(const Attention& attention) {
  return attention.num_heads / attention.num_key_value_heads;
}

/// Query positions in one block.
int64_t block_len(const Attention& attention) {
  const int64_t positions = std::max<int64_t>(1, kAttentionRows / group_of(attention));
  return std::min(positions, attention.seq_len);
}

int64_t num_blocks(const Attention& attention) {
  const int64_t len = block_len(attention);
  return (attention.seq_len + len - 1) / len;
}

int64_t floats_per_worker(const Attention& attention) {
  return attention_scratch_floats(block_len(attention) * group_of(attention), attention.head_dim);
}

/// Block `index` of one key/value head of one sequence.
AttentionBlock block_at(const Attention& attention, int64_t sequence, int64_t head, int64_t index) {
  const int64_t group = group_of(attention);
  const int64_t first = index * block_len(attention);
  const int64_t query_stride = attention.num_heads * attention.head_dim;
  const int64_t cache_stride = attention.num_key_value_heads * attention.head_dim;
  const int64_t query_at =
      (sequence * attention.seq_len + first) * query_stride + head * group * attention.head_dim;
  const int64_t cache_at =
      sequence * attention.cache_len * cache_stride + head * attention.head_dim;
  AttentionBlock block;
  block.query = attention.query + query_at;
  block.key = attention.key + cache_at;
  block.value = attention.value + cache_at;
  block.out = attention.out + query_at;
  block.query_stride = query_stride;
  block.cache_stride = cache_stride;
  block.num_queries = std::min(block_len(attention), attention.seq_len - first);
  block.group = group;
  block.head_dim = attention.head_dim;
  block.key_step = attention.causal ? 1 : 0;
  block.first_num_keys = attention.start_pos + (attention.causal ? first + 1 : attention.seq_len);
  block.scale = attention.scale;
  block.mask = attention.mask == nullptr ? nullptr : attention.mask + first * attention.mask_len;
  block.mask_stride = attention.mask_len;
  return block;
}

}  // namespace

int64_t attention_workers(const Attention& attention, int64_t available) {
  // Below this many multiplications a second thread costs more than it saves (some 10 us).
  constexpr int64_t kWorthAThread = 256 * 1024;
  const int64_t work = 2 * attention.batch * attention.seq_len * attention.num_heads *
                       attention.head_dim * (attention.start_pos + attention.seq_len);
  const int64_t items = attention.batch * attention.num_key_value_heads * num_blocks(attention);
  return std::max<int64_t>(1, std::min({available, items, work / kWorthAThread}));
}

int64_t attention_scratch_floats(const Attention& attention, int64_t workers) {
  return workers * floats_per_worker(attention);
}

void attend(const Attention& attention, const AttentionKernel& kernel, int64_t workers,
            float* scratch) {
  const int64_t heads = attention.batch * attention.num_key_value_heads;
  const int64_t items = heads * num_blocks(attention);
  std::atomic<int64_t> next{0};
  const auto work = [&](int64_t first_worker, int64_t last_worker) {
    for (int64_t worker = first_worker; worker < last_worker; ++worker) {
      float* mine = scratch + worker * floats_per_worker(attention);
      for (int64_t item = next++; item < items; item = next++) {
        // Late blocks see the most keys: they run first, so that no thread finishes one alone.
        const int64_t index = num_blocks(attention) - 1 - item / heads;
        const int64_t head = item % heads;
        kernel.attend(block_at(attention, head / attention.num_key_value_heads,
                               head % attention.num_key_value_heads, index),
                      mine);
      }
    }
  };
  if (workers == 1 || !executorch::extension::parallel_for(0, workers, 1, work)) work(0, 1);
}

}  // namespace thimble
