/// \file
/// Rows of a packed matrix by token, as floats.

/// y[row] = weight[tokens[row]], dequantized. A threadgroup of any size for each row.
kernel void embed_rows(device const uchar* weight [[buffer(0)]],
                       device const int* tokens [[buffer(1)]],
                       device float* y [[buffer(2)]],
                       constant EmbedParams& params [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  const uint token = uint(tokens[group.x]), lane = token % kLanes;
  const Block block = block_of(weight, params.weight, token / kLanes);
  y += ulong(group.x) * params.stride;
  for (uint k = thread_index; k < params.columns; k += threads.x) {
    switch (params.weight.format) {
      case 0:
      case 1:
      case 2:
        y[k] = float(coded(block, 4 + params.weight.format, k / 4, lane)[k % 4]) *
               (float(multiple(block, k / block.group_size, lane)) * float_at(block, lane));
        break;
      case 3:
        y[k] = float(coded(block, 4, k / 4, lane)[k % 4]) *
               Int4::scale(block, k / block.group_size, lane);
        break;
      case 4:
        y[k] = float(Int8::quad(block, k / 4, lane)[k % 4]) * float_at(block, lane);
        break;
      case 5:
        y[k] = float(Int8Groups::quad(block, k / 4, lane)[k % 4]) *
               Int8Groups::scale(block, k / block.group_size, lane);
        break;
      default:
        y[k] = float_at(block, k * kLanes + lane);
    }
  }
}
