/// \file
/// Whole rows: RMSNorm, quantization, sums and SwiGLU of two.

/// y[row] = RMSNorm(x[row]) (Zhang and Sennrich, 2019); y may be x. A threadgroup for each row.
/// \param lanes 16 floats.
kernel void norm_rows(device const float* x [[buffer(0)]],
                      device const float* weight [[buffer(1)]],
                      device float* y [[buffer(2)]],
                      constant NormParams& params [[buffer(3)]],
                      threadgroup float* lanes [[threadgroup(0)]],
                      uint3 group [[threadgroup_position_in_grid]],
                      uint thread_index [[thread_index_in_threadgroup]],
                      uint3 threads [[threads_per_threadgroup]]) {
  x += ulong(group.x) * params.x_stride;
  y += ulong(group.x) * params.y_stride;
  const float scale = norm_scale(x, params.columns, params.eps, lanes, thread_index);
  for (uint k = thread_index; k < params.columns; k += threads.x) y[k] = x[k] * scale * weight[k];
}

/// y[row] = x[row], normed where that is asked, each block of it times a Hadamard matrix: hadamard()
/// of kernels/kernels.h. A threadgroup for each row, a thread for a block.
/// \param y [rows][columns]
/// \param lanes 16 floats.
kernel void rotate_rows(device const float* x [[buffer(0)]],
                        device const float* norm [[buffer(1)]],
                        device float* y [[buffer(2)]],
                        constant RotateParams& params [[buffer(3)]],
                        threadgroup float* lanes [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint3 threads [[threads_per_threadgroup]]) {
  x += ulong(group.x) * params.x_stride;
  y += ulong(group.x) * params.columns;
  float factor = 1.0f;
  if (params.has_norm) factor = norm_scale(x, params.columns, params.eps, lanes, thread_index);
  float part[64];
  for (uint first = thread_index * params.block; first < params.columns;
       first += threads.x * params.block) {
    for (uint i = 0; i < params.block; ++i) {
      const uint k = first + i;
      part[i] = params.has_norm ? x[k] * factor * norm[k] : x[k];
    }
    for (uint apart = 1; apart < params.block; apart *= 2) {
      for (uint i = 0; i < params.block; ++i) {
        if ((i & apart) != 0) continue;
        const float a = part[i], b = part[i + apart];
        part[i] = a + b;
        part[i + apart] = a - b;
      }
    }
    for (uint i = 0; i < params.block; ++i) y[first + i] = part[i] * params.scale;
  }
}

/// The smallest and largest of a threadgroup's numbers, the same for all of its threads.
/// \param extremes room for two floats a thread.
inline void find_extremes(thread float& low, thread float& high, threadgroup float* extremes,
                          uint thread_index, uint count) {
  extremes[thread_index] = low;
  extremes[count + thread_index] = high;
  for (uint apart = count / 2; apart > 0; apart /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (thread_index < apart) {
      low = smaller(extremes[thread_index + apart], low);
      high = larger(extremes[count + thread_index + apart], high);
      extremes[thread_index] = low;
      extremes[count + thread_index] = high;
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  low = extremes[0];
  high = extremes[count];
}

/// Each thread's groups of a row as int8 with a scale each.
inline void quantize_groups(device const float* x, device const float* norm, float factor,
                            device char* q, device float* scales, constant QuantizeParams& params,
                            uint first, uint step) {
  for (uint group = first; group < params.stored / params.group_size; group += step) {
    const uint start = group * params.group_size;
    const uint end = start + params.group_size;
    float size = 0.0f;
    for (uint k = start; k < end && k < params.columns; ++k) {
      const float value = params.has_norm ? x[k] * factor * norm[k] : x[k];
      size = larger(larger(value, 0.0f - value), size);
    }
    const float scale = larger(size / 127.0f, kSmallest);
    const float inverse = 1.0f / scale;
    for (uint k = start; k < end; ++k) {
      int value = 0;
      if (k < params.columns) {
        const float steps = (params.has_norm ? x[k] * factor * norm[k] : x[k]) * inverse;
        value = int(rint(smaller(larger(steps, -127.0f), 127.0f)));
      }
      q[k] = char(value);
    }
    scales[group] = scale;
  }
}

/// x[row], normed where that is asked, as int8 with one scale and zero point, or with a scale for
/// each group: the mappings of QuantizeArgs in kernels/kernels.h. A threadgroup of a power of two
/// of threads for each row.
/// \param q [rows][stored]
/// \param scales [rows], or float [rows][groups]
/// \param memory 16 floats, then two a thread.
kernel void quantize_rows(device const float* x [[buffer(0)]],
                          device const float* norm [[buffer(1)]],
                          device char* q [[buffer(2)]],
                          device RowScale* scales [[buffer(3)]],
                          constant QuantizeParams& params [[buffer(4)]],
                          threadgroup float* memory [[threadgroup(0)]],
                          uint3 group [[threadgroup_position_in_grid]],
                          uint thread_index [[thread_index_in_threadgroup]],
                          uint3 threads [[threads_per_threadgroup]]) {
  x += ulong(group.x) * params.x_stride;
  q += ulong(group.x) * params.stored;
  float factor = 1.0f;
  if (params.has_norm) factor = norm_scale(x, params.columns, params.eps, memory, thread_index);
  if (params.group_size > 0) {
    const ulong groups = params.stored / params.group_size;
    quantize_groups(x, norm, factor, q, reinterpret_cast<device float*>(scales) + group.x * groups,
                    params, thread_index, threads.x);
    return;
  }
  float low = 0.0f, high = 0.0f;
  for (uint k = thread_index; k < params.columns; k += threads.x) {
    const float value = params.has_norm ? x[k] * factor * norm[k] : x[k];
    low = smaller(value, low);
    high = larger(value, high);
  }
  find_extremes(low, high, memory + kLanes, thread_index, threads.x);

  const float scale = larger((high - low) / 255.0f, kSmallest);
  const float zero_point = smaller(larger(-128.0f - rint(low / scale), -128.0f), 127.0f);
  const float inverse = 1.0f / scale;
  for (uint k = thread_index; k < params.stored; k += threads.x) {
    int value = 0;
    if (k < params.columns) {
      const float steps = (params.has_norm ? x[k] * factor * norm[k] : x[k]) * inverse;
      const float inside = smaller(larger(steps, -128.0f - zero_point), 127.0f - zero_point);
      value = int(rint(inside)) + int(zero_point);
    }
    q[k] = char(value);
  }
  if (thread_index == 0) scales[group.x] = RowScale{scale, int(zero_point)};
}

/// y[row] += x[row]. A threadgroup for `threads` columns of a row.
kernel void add_rows(device const float* x [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     constant PairParams& params [[buffer(2)]],
                     uint3 group [[threadgroup_position_in_grid]],
                     uint thread_index [[thread_index_in_threadgroup]],
                     uint3 threads [[threads_per_threadgroup]]) {
  const uint column = group.x * threads.x + thread_index;
  if (column >= params.columns) return;
  y += ulong(group.y) * params.y_stride;
  y[column] = y[column] + x[ulong(group.y) * params.x_stride + column];
}

/// y[row] = gate[row] / (1 + exp(-gate[row])) * up[row]. A threadgroup for `threads` columns.
kernel void swiglu_rows(device const float* gate [[buffer(0)]],
                        device const float* up [[buffer(1)]],
                        device float* y [[buffer(2)]],
                        constant PairParams& params [[buffer(3)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]],
                        uint3 threads [[threads_per_threadgroup]]) {
  const uint column = group.x * threads.x + thread_index;
  if (column >= params.columns) return;
  y[ulong(group.y) * params.y_stride + column] =
      swiglu(gate[ulong(group.y) * params.x_stride + column],
             up[ulong(group.y) * params.up_stride + column]);
}
