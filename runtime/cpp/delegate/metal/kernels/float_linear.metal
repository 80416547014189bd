/// \file
/// float32 rows times a packed float32 weight. A threadgroup makes the outputs of two blocks of 16
/// for 8 rows; its threads are 16 lanes by four fused chains, over the columns of equal k % 4, added
/// (0 + 1) + (2 + 3).

constant constexpr uint kFloatRows = 8;
constant constexpr uint kChains = 4;

/// Grid: pairs of blocks, tiles of 8 rows.
/// \param sums 512 floats: [8][4][16].
kernel void float_linear(device const uchar* weight [[buffer(0)]],
                         device const float* x [[buffer(1)]],
                         device const float* bias [[buffer(2)]],
                         device float* y [[buffer(3)]],
                         constant LinearParams& params [[buffer(4)]],
                         threadgroup float* sums [[threadgroup(0)]],
                         uint3 group [[threadgroup_position_in_grid]],
                         uint thread_index [[thread_index_in_threadgroup]]) {
  const uint chain = thread_index / kLanes, lane = thread_index % kLanes;
  const uint first_row = group.y * kFloatRows;
  const uint rows = min(kFloatRows, params.rows - first_row);
  float outputs[2][kFloatRows / kChains] = {{0.0f, 0.0f}, {0.0f, 0.0f}};  // rows chain, chain + 4
  for (uint i = 0; i < blocks_of_pair(group.x, params); ++i) {
    const Block block = block_of(weight, params.weight, 2 * group.x + i);
    float acc[kFloatRows];
    for (uint r = 0; r < kFloatRows; ++r) acc[r] = 0.0f;
    for (uint k = chain; k < params.weight.columns; k += kChains) {
      const float value = float_at(block, k * kLanes + lane);
      for (uint r = 0; r < rows; ++r)
        acc[r] = fma(x[ulong(first_row + r) * params.x_stride + k], value, acc[r]);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = 0; r < rows; ++r) sums[(r * kChains + chain) * kLanes + lane] = acc[r];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint r = chain; r < rows; r += kChains) {
      threadgroup const float* row = sums + r * kChains * kLanes + lane;
      outputs[i][r / kChains] =
          (row[0] + row[kLanes]) + (row[2 * kLanes] + row[3 * kLanes]);
    }
  }
  for (uint r = chain; r < rows; r += kChains)
    store_pair(outputs[0][r / kChains], outputs[1][r / kChains], group.x, lane, bias,
               y + ulong(first_row + r) * params.y_stride, params);
}
