/// \file
/// A row times a packed weight: decoding, at the speed of memory. A threadgroup makes the outputs of
/// two blocks of 16; its threads are 16 lanes by slices of the columns, so that neighbours read
/// neighbouring bytes. Integers of all slices are added; float sums of groups keep their order.

constant constexpr uint kMatvecThreads = 128;
constant constexpr uint kSlices = kMatvecThreads / kLanes;

/// Of the formats whose integers run over all columns, the output of one lane, in slice 0.
/// \param sums room for an int a thread.
template <typename Format>
inline float matvec_block(Format, thread const Block& block, device const char4* q,
                          Input<Format> input, uint columns, threadgroup int* sums, uint slice,
                          uint lane) {
  int total = 0;
  for (uint pair = slice; pair < columns / 8; pair += kSlices) {
    total += dot4(Format::quad(block, 2 * pair, lane), q[2 * pair]);
    total += dot4(Format::quad(block, 2 * pair + 1, lane), q[2 * pair + 1]);
  }
  sums[slice * kLanes + lane] = total;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (slice == 0)
    for (uint other = 1; other < kSlices; ++other) total += sums[other * kLanes + lane];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return scaled(total, block, input.row, lane);
}

/// The same where every group has a float scale: the slices take a group each.
template <typename Values>
inline float matvec_block(Grouped<Values>, thread const Block& block, device const char4* q,
                          Input<Grouped<Values>> input, uint columns, threadgroup int* sums,
                          uint slice, uint lane) {
  const uint quads = block.group_size / 4, groups = columns / block.group_size;
  float total = 0.0f;
  for (uint first = 0; first < groups; first += kSlices) {
    const uint group = first + slice;
    if (group < groups) {
      int sum = 0;
      for (uint quad = group * quads; quad < (group + 1) * quads; ++quad)
        sum += dot4(Values::quad(block, quad, lane), q[quad]);
      sums[slice * kLanes + lane] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (slice == 0)
      for (uint other = 0; other < kSlices && first + other < groups; ++other)
        total = fma(float(int(sums[other * kLanes + lane])),
                    Grouped<Values>::scale(block, first + other, lane) * input.scales[first + other],
                    total);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  return total;
}

template <typename Format>
inline void matvec(device const uchar* weight, device const char4* q, device const RowScale* scales,
                   device const float* bias, device float* y, constant LinearParams& params,
                   threadgroup int* sums, uint3 group, uint thread_index) {
  const uint slice = thread_index / kLanes, lane = thread_index % kLanes;
  const Input<Format> input = Input<Format>::at(scales, group.y, params.weight);
  q += ulong(group.y) * (params.weight.columns / 4);
  y += ulong(group.y) * params.y_stride;
  float outputs[2] = {0.0f, 0.0f};
  for (uint i = 0; i < blocks_of_pair(group.x, params); ++i) {
    const Block block = block_of(weight, params.weight, 2 * group.x + i);
    outputs[i] =
        matvec_block(Format(), block, q, input, params.weight.columns, sums, slice, lane);
  }
  if (slice == 0) store_pair(outputs[0], outputs[1], group.x, lane, bias, y, params);
}

/// Grid: pairs of blocks, rows.
/// \param q [rows][weight.columns / 4]
/// \param sums 128 int.
kernel void matvec_int4_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* sums [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<TwoLevel<4>>(weight, q, scales, bias, y, params, sums, group, thread_index);
}

/// As matvec_int4_two_level.
kernel void matvec_int5_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* sums [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<TwoLevel<5>>(weight, q, scales, bias, y, params, sums, group, thread_index);
}

/// As matvec_int4_two_level.
kernel void matvec_int6_two_level(device const uchar* weight [[buffer(0)]],
                                  device const char4* q [[buffer(1)]],
                                  device const RowScale* scales [[buffer(2)]],
                                  device const float* bias [[buffer(3)]],
                                  device float* y [[buffer(4)]],
                                  constant LinearParams& params [[buffer(5)]],
                                  threadgroup int* sums [[threadgroup(0)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<TwoLevel<6>>(weight, q, scales, bias, y, params, sums, group, thread_index);
}

/// As matvec_int4_two_level.
kernel void matvec_int4(device const uchar* weight [[buffer(0)]],
                        device const char4* q [[buffer(1)]],
                        device const RowScale* scales [[buffer(2)]],
                        device const float* bias [[buffer(3)]],
                        device float* y [[buffer(4)]],
                        constant LinearParams& params [[buffer(5)]],
                        threadgroup int* sums [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<Int4>(weight, q, scales, bias, y, params, sums, group, thread_index);
}

/// As matvec_int4_two_level.
kernel void matvec_int8(device const uchar* weight [[buffer(0)]],
                        device const char4* q [[buffer(1)]],
                        device const RowScale* scales [[buffer(2)]],
                        device const float* bias [[buffer(3)]],
                        device float* y [[buffer(4)]],
                        constant LinearParams& params [[buffer(5)]],
                        threadgroup int* sums [[threadgroup(0)]],
                        uint3 group [[threadgroup_position_in_grid]],
                        uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<Int8>(weight, q, scales, bias, y, params, sums, group, thread_index);
}

/// As matvec_int4_two_level.
kernel void matvec_int8_groups(device const uchar* weight [[buffer(0)]],
                               device const char4* q [[buffer(1)]],
                               device const RowScale* scales [[buffer(2)]],
                               device const float* bias [[buffer(3)]],
                               device float* y [[buffer(4)]],
                               constant LinearParams& params [[buffer(5)]],
                               threadgroup int* sums [[threadgroup(0)]],
                               uint3 group [[threadgroup_position_in_grid]],
                               uint thread_index [[thread_index_in_threadgroup]]) {
  matvec<Int8Groups>(weight, q, scales, bias, y, params, sums, group, thread_index);
}
