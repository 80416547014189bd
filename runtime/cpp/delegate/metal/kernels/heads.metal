/// \file
/// Before attention: heads normed and rotated, keys and values written to the cache. The cache is
/// the CPU delegate's (kernels/shared/cache.h), in blocks of 16 positions:
///
///     keys   [block][head_dim][16]
///     values [block][16][head_dim padded to 16]

/// Element of the cache in a row: dimension d of its key,
inline ulong key_at(uint row, uint d, uint head_dim) {
  return ulong(row / kLanes * head_dim + d) * kLanes + row % kLanes;
}
/// or of its value.
inline ulong value_at(uint row, uint d, uint head_dim) {
  return ulong(row) * ((head_dim + kLanes - 1) / kLanes * kLanes) + d;
}

/// One head, normed and rotated where that is asked, in threadgroup memory; all threads may read it
/// when this returns.
/// \param memory 16 floats, then the head.
inline void norm_and_rotate(device const float* x, device const float* norm,
                            device const float* cosines, device const float* sines,
                            constant HeadsParams& params, threadgroup float* memory,
                            uint thread_index, uint threads) {
  threadgroup float* head = memory + kLanes;
  const uint half_dim = params.head_dim / 2;
  if (norm != nullptr) {
    const float scale = norm_scale(x, params.head_dim, params.eps, memory, thread_index);
    for (uint d = thread_index; d < params.head_dim; d += threads) head[d] = x[d] * scale * norm[d];
  } else {
    for (uint d = thread_index; d < params.head_dim; d += threads) head[d] = x[d];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (cosines != nullptr) {
    for (uint d = thread_index; d < half_dim; d += threads) {
      const float a = head[d], b = head[half_dim + d];
      head[d] = a * cosines[d] - b * sines[d];
      head[half_dim + d] = b * cosines[d] + a * sines[d];
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
}

template <typename Element>
inline void prepare_heads(device float* queries, device const float* keys,
                          device const float* values, device const float* floats,
                          device Element* cache, constant HeadsParams& params,
                          threadgroup float* memory, uint3 group, uint thread_index,
                          uint threads) {
  const uint row = group.y, position = params.start_pos + row;
  const bool is_query = group.x < params.query_heads;
  if (is_query && (row < params.first_query || row >= params.last_query)) return;
  const uint index = is_query ? group.x : group.x - params.query_heads;
  device float* query = queries + ulong(row) * params.query_stride + index * params.head_dim;
  device const float* key = keys + ulong(row) * params.key_stride + index * params.head_dim;
  const uint half_dim = params.head_dim / 2;
  const bool has_norm = is_query ? params.has_query_norm : params.has_key_norm;
  device const float* norm = floats + (is_query ? params.query_norm_at : params.key_norm_at);
  device const float* cosines = floats + params.cosines_at + ulong(position) * half_dim;
  device const float* sines = floats + params.sines_at + ulong(position) * half_dim;
  norm_and_rotate(is_query ? query : key, has_norm ? norm : nullptr,
                  params.has_rotation ? cosines : nullptr, sines, params, memory, thread_index,
                  threads);
  threadgroup const float* head = memory + kLanes;
  if (is_query) {
    for (uint d = thread_index; d < params.head_dim; d += threads) query[d] = head[d];
    return;
  }
  device const float* value = values + ulong(row) * params.value_stride + index * params.head_dim;
  const uint cached = params.ring > 0 ? position % params.ring : position;
  device Element* cached_keys = cache + ulong(index) * params.cache_head_stride;
  device Element* cached_values = cached_keys + params.cache_values_at;
  for (uint d = thread_index; d < params.head_dim; d += threads) {
    cached_keys[key_at(cached, d, params.head_dim)] = Element(head[d]);
    cached_values[value_at(cached, d, params.head_dim)] = Element(value[d]);
  }
}

/// Grid: query heads, then key/value heads; rows. Queries change in place.
/// \param floats norm weights and tables, of which `params` says where.
/// \param memory 16 floats and a head.
kernel void prepare_heads_float16(device float* queries [[buffer(0)]],
                                  device const float* keys [[buffer(1)]],
                                  device const float* values [[buffer(2)]],
                                  device const float* floats [[buffer(3)]],
                                  device half* cache [[buffer(4)]],
                                  constant HeadsParams& params [[buffer(5)]],
                                  threadgroup float* memory [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]],
                                  uint3 threads [[threads_per_threadgroup]]) {
  prepare_heads<half>(queries, keys, values, floats, cache, params, memory, group, thread_index,
                      threads.x);
}

/// As prepare_heads_float16.
kernel void prepare_heads_float32(device float* queries [[buffer(0)]],
                                  device const float* keys [[buffer(1)]],
                                  device const float* values [[buffer(2)]],
                                  device const float* floats [[buffer(3)]],
                                  device float* cache [[buffer(4)]],
                                  constant HeadsParams& params [[buffer(5)]],
                                  threadgroup float* memory [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]],
                                  uint3 threads [[threads_per_threadgroup]]) {
  prepare_heads<float>(queries, keys, values, floats, cache, params, memory, group, thread_index,
                       threads.x);
}
