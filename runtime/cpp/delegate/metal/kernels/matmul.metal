/// \file
/// Many rows times a packed weight: prefill. A threadgroup makes the outputs of two blocks of 16 for
/// 32 rows. It unpacks a panel of 32 columns once, for all of these rows; a thread is one lane of
/// both blocks for every eighth row.

constant constexpr uint kMatmulThreads = 128;
constant constexpr uint kTileRows = 32;
constant constexpr uint kPanelQuads = 8;  ///< of 4 columns: 32, which every group is a multiple of
constant constexpr uint kRowStep = kMatmulThreads / kLanes;
constant constexpr uint kThreadRows = kTileRows / kRowStep;

/// A thread's sums for one output. Integer sums run over all columns,
template <typename Format>
struct Total {
  int sum;
  void clear() { sum = 0; }
  void end_panel(thread const Block&, Input<Format>, uint, uint) {}
  float output(thread const Block& block, Input<Format> input, uint lane) const {
    return scaled(sum, block, input.row, lane);
  }
};

/// or over a group, where every group has a float scale.
template <typename Values>
struct Total<Grouped<Values>> {
  int sum;
  float groups;
  void clear() {
    sum = 0;
    groups = 0.0f;
  }
  /// \param quad the first behind the panel.
  void end_panel(thread const Block& block, Input<Grouped<Values>> input, uint quad, uint lane) {
    if (quad * 4 % block.group_size != 0) return;
    const uint group = quad * 4 / block.group_size - 1;
    const float scale = Grouped<Values>::scale(block, group, lane) * input.scales[group];
    groups = fma(float(sum), scale, groups);
    sum = 0;
  }
  float output(thread const Block&, Input<Grouped<Values>>, uint) const { return groups; }
};

template <typename Format>
inline void matmul(device const uchar* weight, device const char4* q, device const RowScale* scales,
                   device const float* bias, device float* y, constant LinearParams& params,
                   threadgroup int* memory, uint3 group, uint thread_index) {
  const uint lane = thread_index % kLanes, first_row = thread_index / kLanes;
  const uint quads = params.weight.columns / 4, blocks = blocks_of_pair(group.x, params);
  const uint tile = group.y * kTileRows;
  threadgroup int* panel = memory;                                   // [2][kPanelQuads][16]
  threadgroup int* rows = memory + 2 * kPanelQuads * kLanes;         // [kTileRows][kPanelQuads]
  const Block pair[2] = {block_of(weight, params.weight, 2 * group.x),
                         block_of(weight, params.weight, 2 * group.x + blocks - 1)};
  Total<Format> totals[2][kThreadRows];
  Input<Format> inputs[kThreadRows];
  for (uint r = 0; r < kThreadRows; ++r) {
    const uint row = min(tile + first_row + r * kRowStep, params.rows - 1);
    inputs[r] = Input<Format>::at(scales, row, params.weight);
    for (uint i = 0; i < 2; ++i) totals[i][r].clear();
  }

  for (uint start = 0; start < quads; start += kPanelQuads) {
    for (uint i = thread_index; i < blocks * kPanelQuads * kLanes; i += kMatmulThreads) {
      const uint quad = start + i / kLanes % kPanelQuads;
      panel[i] = as_type<int>(Format::quad(pair[i / (kPanelQuads * kLanes)], quad, i % kLanes));
    }
    for (uint i = thread_index; i < kTileRows * kPanelQuads; i += kMatmulThreads) {
      const uint row = tile + i / kPanelQuads;
      const char4 values =
          row < params.rows ? q[ulong(row) * quads + start + i % kPanelQuads] : char4(0, 0, 0, 0);
      rows[i] = as_type<int>(values);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint quad = 0; quad < kPanelQuads; ++quad) {
      for (uint i = 0; i < blocks; ++i) {
        const char4 values = as_type<char4>(int(panel[(i * kPanelQuads + quad) * kLanes + lane]));
        for (uint r = 0; r < kThreadRows; ++r) {
          const uint row = first_row + r * kRowStep;
          totals[i][r].sum += dot4(values, as_type<char4>(int(rows[row * kPanelQuads + quad])));
        }
      }
    }
    for (uint i = 0; i < blocks; ++i)
      for (uint r = 0; r < kThreadRows; ++r)
        totals[i][r].end_panel(pair[i], inputs[r], start + kPanelQuads, lane);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }

  for (uint r = 0; r < kThreadRows; ++r) {
    const uint row = tile + first_row + r * kRowStep;
    if (row >= params.rows) return;
    const float first = totals[0][r].output(pair[0], inputs[r], lane);
    const float second = totals[1][r].output(pair[1], inputs[r], lane);
    store_pair(first, second, group.x, lane, bias, y + ulong(row) * params.y_stride, params);
  }
}

/// Grid: pairs of blocks, tiles of 32 rows.
/// \param q [rows][weight.columns / 4]
/// \param memory 512 int.
kernel void matmul_int4_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* memory [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<TwoLevel<4>>(weight, q, scales, bias, y, params, memory, group, thread_index);
}

/// As matmul_int4_two_level.
kernel void matmul_int5_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* memory [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<TwoLevel<5>>(weight, q, scales, bias, y, params, memory, group, thread_index);
}

/// As matmul_int4_two_level.
kernel void matmul_int6_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* memory [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<TwoLevel<6>>(weight, q, scales, bias, y, params, memory, group, thread_index);
}

/// As matmul_int4_two_level.
kernel void matmul_int4(device const uchar* weight [[buffer(0)]],
                        device const char4* q [[buffer(1)]],
                        device const RowScale* scales [[buffer(2)]],
                        device const float* bias [[buffer(3)]],
                        device float* y [[buffer(4)]],
                        constant LinearParams& params [[buffer(5)]],
                        threadgroup int* memory [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<Int4>(weight, q, scales, bias, y, params, memory, group, thread_index);
}

/// As matmul_int4_two_level.
kernel void matmul_int8(device const uchar* weight [[buffer(0)]],
                        device const char4* q [[buffer(1)]],
                        device const RowScale* scales [[buffer(2)]],
                        device const float* bias [[buffer(3)]],
                        device float* y [[buffer(4)]],
                        constant LinearParams& params [[buffer(5)]],
                        threadgroup int* memory [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<Int8>(weight, q, scales, bias, y, params, memory, group, thread_index);
}

/// As matmul_int4_two_level.
kernel void matmul_int8_groups(device const uchar* weight [[buffer(0)]],
                               device const char4* q [[buffer(1)]],
                               device const RowScale* scales [[buffer(2)]],
                               device const float* bias [[buffer(3)]],
                               device float* y [[buffer(4)]],
                               constant LinearParams& params [[buffer(5)]],
                               threadgroup int* memory [[threadgroup(0)]],
                               uint3 group [[threadgroup_position_in_grid]],
                               uint thread_index [[thread_index_in_threadgroup]]) {
  matmul<Int8Groups>(weight, q, scales, bias, y, params, memory, group, thread_index);
}
