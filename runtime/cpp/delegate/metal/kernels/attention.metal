/// \file
/// Causal attention over the cache: online softmax (Milakov and Gimelshein, 2018) in powers of two
/// over tiles of 64 positions, one thread each; splits of 512 are computed separately and merged in
/// order. All as AttentionArgs of kernels/shared/cache.h orders it. A threadgroup of 64 threads works on
/// one query head of one row.

constant constexpr uint kTile = 64;
constant constexpr uint kSplit = 512;
constant constexpr uint kThreadDims = THIMBLE_METAL_MOST_HEAD_DIM / kTile;
/// Threadgroup memory, in floats: the query, scores and weights of a tile, 16 lanes.
constant constexpr uint kScoresAt = THIMBLE_METAL_MOST_HEAD_DIM;
constant constexpr uint kWeightsAt = kScoresAt + kTile;
constant constexpr uint kLanesAt = kWeightsAt + kTile;

/// One thread's share of a row's partial result: outputs of every 64th dimension, not yet divided;
/// the sum of weights of every 16th position, in the first 16 threads; the largest score.
struct Gathered {
  float outputs[kThreadDims];
  float sum;
  float largest;

  void clear() {
    for (uint i = 0; i < kThreadDims; ++i) outputs[i] = 0.0f;
    sum = 0.0f;
    largest = kLowest;
  }
};

/// Adds the partial result of the positions that follow.
inline void merge(thread Gathered& mine, thread const Gathered& next) {
  const float highest = larger(next.largest, mine.largest);
  const float keep = exponential2(mine.largest - highest);
  const float take = exponential2(next.largest - highest);
  for (uint i = 0; i < kThreadDims; ++i)
    mine.outputs[i] = fma(next.outputs[i], take, mine.outputs[i] * keep);
  mine.sum = fma(next.sum, take, mine.sum * keep);
  mine.largest = highest;
}

/// Adds positions of the tile that begins at `start`: from `first` to before `end`.
/// \param memory with the query in its place, scaled.
template <typename Element>
inline void add_tile(thread Gathered& gathered, device const Element* keys,
                     device const Element* values, constant AttentionParams& params, uint start,
                     uint first, uint end, threadgroup float* memory, uint thread_index) {
  threadgroup float* scores = memory + kScoresAt;
  threadgroup float* weights = memory + kWeightsAt;
  const uint head_dim = params.head_dim, row = params.ring > 0 ? start % params.ring : start;
  const uint before = max(first, start) - start, positions = end - start;
  const bool is_seen = thread_index >= before && thread_index < positions;
  float score = kLowest;
  if (is_seen) {
    score = 0.0f;
    for (uint d = 0; d < head_dim; ++d)
      score = fma(memory[d], float(keys[key_at(row + thread_index, d, head_dim)]), score);
  }
  scores[thread_index] = score;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float highest = gathered.largest;
  for (uint i = before; i < positions; ++i) highest = larger(scores[i], highest);
  const float factor = exponential2(gathered.largest - highest);
  weights[thread_index] = is_seen ? exponential2(score - highest) : 0.0f;
  gathered.largest = highest;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_index < kLanes) {
    gathered.sum = gathered.sum * factor;
    for (uint i = thread_index; i < kTile; i += kLanes) gathered.sum = gathered.sum + weights[i];
  }
  for (uint i = 0; i < kThreadDims; ++i) {
    const uint d = thread_index + i * kTile;
    if (d >= head_dim) break;
    float output = gathered.outputs[i] * factor;
    for (uint p = before; p < positions; ++p)
      output = fma(weights[p], float(values[value_at(row + p, d, head_dim)]), output);
    gathered.outputs[i] = output;
  }
}

/// The first position that a query at `position` sees.
inline uint first_seen(uint position, uint window) {
  return window == 0 || position < window ? 0 : position + 1 - window;
}

/// Gathers one split: what the query at `position` sees of it.
template <typename Element>
inline void gather_split(thread Gathered& gathered, device const Element* keys,
                         device const Element* values, constant AttentionParams& params, uint split,
                         uint position, threadgroup float* memory, uint thread_index) {
  gathered.clear();
  const uint first = first_seen(position, params.window);
  const uint end = min(position + 1, (split + 1) * kSplit);
  for (uint start = max(split * kSplit, first / kTile * kTile); start < end; start += kTile)
    add_tile(gathered, keys, values, params, start, first, min(end, start + kTile), memory,
             thread_index);
}

/// Stores a row's query, scaled.
inline void take_query(device const float* query, constant AttentionParams& params,
                       threadgroup float* memory, uint thread_index) {
  for (uint d = thread_index; d < params.head_dim; d += kTile)
    memory[d] = query[d] * params.scale;
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

/// Writes a row's outputs.
inline void finish(thread const Gathered& gathered, device float* output, uint head_dim,
                   threadgroup float* memory, uint thread_index) {
  threadgroup float* lanes = memory + kLanesAt;
  if (thread_index < kLanes) lanes[thread_index] = gathered.sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  const float sum = lane_sum(lanes);
  for (uint i = 0; i < kThreadDims; ++i) {
    const uint d = thread_index + i * kTile;
    if (d < head_dim) output[d] = gathered.outputs[i] / sum;
  }
}

template <typename Element>
inline void attention(device const float* queries, device const Element* cache,
                      device float* outputs, constant AttentionParams& params,
                      threadgroup float* memory, uint3 group, uint thread_index) {
  const uint position = params.start_pos + group.y, head_dim = params.head_dim;
  const uint key_head = group.x / (params.query_heads / params.key_heads);
  device const Element* keys = cache + ulong(key_head) * params.cache_head_stride;
  device const Element* values = keys + params.cache_values_at;
  take_query(queries + ulong(group.y) * params.query_stride + group.x * head_dim, params, memory,
             thread_index);
  Gathered merged;
  merged.clear();
  const uint first_split = first_seen(position, params.window) / kSplit;
  for (uint split = first_split; split * kSplit <= position; ++split) {
    Gathered gathered;
    gather_split(gathered, keys, values, params, split, position, memory, thread_index);
    merge(merged, gathered);
  }
  finish(merged, outputs + ulong(group.y) * params.output_stride + group.x * head_dim, head_dim,
         memory, thread_index);
}

/// Rows of several tokens, or few positions. Grid: query heads, rows.
/// \param memory 400 floats.
kernel void attention_float16(device const float* queries [[buffer(0)]],
                              device const half* cache [[buffer(1)]],
                              device float* outputs [[buffer(2)]],
                              constant AttentionParams& params [[buffer(3)]],
                              threadgroup float* memory [[threadgroup(0)]],
                              uint3 group [[threadgroup_position_in_grid]],
                              uint thread_index [[thread_index_in_threadgroup]]) {
  attention<half>(queries, cache, outputs, params, memory, group, thread_index);
}

/// As attention_float16.
kernel void attention_float32(device const float* queries [[buffer(0)]],
                              device const float* cache [[buffer(1)]],
                              device float* outputs [[buffer(2)]],
                              constant AttentionParams& params [[buffer(3)]],
                              threadgroup float* memory [[threadgroup(0)]],
                              uint3 group [[threadgroup_position_in_grid]],
                              uint thread_index [[thread_index_in_threadgroup]]) {
  attention<float>(queries, cache, outputs, params, memory, group, thread_index);
}
