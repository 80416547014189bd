/// \file
/// Attention of one row over many positions: a threadgroup for each split, so that the whole device
/// has work, then one that merges the splits. The result is bit-identical to attention's.

/// A split's partial result of a head: outputs, 16 lanes of the sum, the largest score.
constant constexpr uint kPartialSize = THIMBLE_METAL_MOST_HEAD_DIM + kLanes + 1;

template <typename Element>
inline void attention_split(device const float* queries, device const Element* cache,
                            device float* partials, constant AttentionParams& params,
                            threadgroup float* memory, uint3 group, uint thread_index) {
  const uint key_head = group.x / (params.query_heads / params.key_heads);
  device const Element* keys = cache + ulong(key_head) * params.cache_head_stride;
  device const Element* values = keys + params.cache_values_at;
  take_query(queries + group.x * params.head_dim, params, memory, thread_index);
  Gathered gathered;
  const uint split = first_seen(params.start_pos, params.window) / kSplit + group.y;
  gather_split(gathered, keys, values, params, split, params.start_pos, memory, thread_index);
  partials += (group.x * params.splits + group.y) * kPartialSize;
  for (uint i = 0; i < kThreadDims; ++i) partials[thread_index + i * kTile] = gathered.outputs[i];
  partials += THIMBLE_METAL_MOST_HEAD_DIM;
  if (thread_index < kLanes) partials[thread_index] = gathered.sum;
  if (thread_index == 0) partials[kLanes] = gathered.largest;
}

/// Grid: query heads, splits. 64 threads.
/// \param partials [heads][splits][kPartialSize]
/// \param memory 400 floats.
kernel void attention_split_float16(device const float* queries [[buffer(0)]],
                                    device const half* cache [[buffer(1)]],
                                    device float* partials [[buffer(2)]],
                                    constant AttentionParams& params [[buffer(3)]],
                                    threadgroup float* memory [[threadgroup(0)]],
                                    uint3 group [[threadgroup_position_in_grid]],
                                    uint thread_index [[thread_index_in_threadgroup]]) {
  attention_split<half>(queries, cache, partials, params, memory, group, thread_index);
}

/// As attention_split_float16.
kernel void attention_split_float32(device const float* queries [[buffer(0)]],
                                    device const float* cache [[buffer(1)]],
                                    device float* partials [[buffer(2)]],
                                    constant AttentionParams& params [[buffer(3)]],
                                    threadgroup float* memory [[threadgroup(0)]],
                                    uint3 group [[threadgroup_position_in_grid]],
                                    uint thread_index [[thread_index_in_threadgroup]]) {
  attention_split<float>(queries, cache, partials, params, memory, group, thread_index);
}

/// Grid: query heads. 64 threads.
/// \param memory 400 floats.
kernel void attention_merge(device const float* partials [[buffer(0)]],
                            device float* outputs [[buffer(1)]],
                            constant AttentionParams& params [[buffer(2)]],
                            threadgroup float* memory [[threadgroup(0)]],
                            uint3 group [[threadgroup_position_in_grid]],
                            uint thread_index [[thread_index_in_threadgroup]]) {
  Gathered merged;
  merged.clear();
  partials += group.x * params.splits * kPartialSize;
  for (uint split = 0; split < params.splits; ++split, partials += kPartialSize) {
    Gathered next;
    for (uint i = 0; i < kThreadDims; ++i) next.outputs[i] = partials[thread_index + i * kTile];
    device const float* sums = partials + THIMBLE_METAL_MOST_HEAD_DIM;
    next.sum = thread_index < kLanes ? sums[thread_index] : 0.0f;
    next.largest = sums[kLanes];
    merge(merged, next);
  }
  finish(merged, outputs + group.x * params.head_dim, params.head_dim, memory, thread_index);
}
