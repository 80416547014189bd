/// \file
/// Packed weights as kernels/layout/layout.h lays them out: four columns of a lane at a time.

/// A block of 16 rows: what every format has.
struct Block {
  device const uchar* data;
  uint scales_at;
  uint values_at;
  uint group_size;
};

inline Block block_of(device const uchar* weight, constant WeightParams& params, uint block) {
  return {weight + ulong(block) * params.block_bytes, params.scales_at, params.values_at,
          params.group_size};
}

inline float float_at(thread const Block& block, uint lane) {
  return reinterpret_cast<device const float*>(block.data)[lane];
}
/// Of the formats with a row scale: sum over k of the row's integers.
inline int row_sum(thread const Block& block, uint lane) {
  return reinterpret_cast<device const int*>(block.data)[kLanes + lane];
}

/// The values of columns 4 * quad .. + 3, of 4, 5 or 6 bits: the four codes in a word, a byte each.
inline char4 coded(thread const Block& block, uint bits, uint quad, uint lane) {
  device const uint* step = reinterpret_cast<device const uint*>(block.data + block.values_at) +
                            quad / 8 * bits * kLanes + lane;
  uint codes = step[quad % 8 / 2 * kLanes] >> (quad % 2 * 4) & 0x0F0F0F0F;
  if (bits > 4) {
    const uint upper = quad % 8 * (bits - 4), mask = ((1u << (bits - 4)) - 1) * 0x01010101;
    codes |= (step[(4 + upper / 8) * kLanes] >> (upper % 8) & mask) << 4;
  }
  const int largest = (1 << (bits - 1)) - 1;
  return char4(char(largest - int(codes & 255)), char(largest - int(codes >> 8 & 255)),
               char(largest - int(codes >> 16 & 255)), char(largest - int(codes >> 24)));
}

/// The integer that scales a group of the formats with two levels.
inline int multiple(thread const Block& block, uint group, uint lane) {
  device const uint* words = reinterpret_cast<device const uint*>(block.data + block.scales_at);
  return int(words[group / 8 * kLanes + lane] >> (group % 8 * 4) & 15);
}

/// The integers that a row's scale multiplies, four at a time, and that scale's group.
template <uint kBits>
struct TwoLevel {
  static char4 quad(thread const Block& block, uint quad, uint lane) {
    const int factor = multiple(block, quad * 4 / block.group_size, lane);
    const char4 values = coded(block, kBits, quad, lane);
    return char4(char(values.x * factor), char(values.y * factor), char(values.z * factor),
                 char(values.w * factor));
  }
};

struct Int8 {
  static char4 quad(thread const Block& block, uint quad, uint lane) {
    return reinterpret_cast<device const char4*>(block.data + block.values_at)[quad * kLanes + lane];
  }
};

/// The integers that a group's scale multiplies, and that scale.
struct Nibbles {
  static char4 quad(thread const Block& block, uint quad, uint lane) {
    return coded(block, 4, quad, lane);
  }
};

template <typename Values>
struct Grouped {
  static float scale(thread const Block& block, uint group, uint lane) {
    device const half* scales = reinterpret_cast<device const half*>(block.data + block.scales_at);
    return float(scales[group * kLanes + lane]);
  }
  static char4 quad(thread const Block& block, uint quad, uint lane) {
    return Values::quad(block, quad, lane);
  }
};
using Int4 = Grouped<Nibbles>;
using Int8Groups = Grouped<Int8>;

/// How a row of inputs was quantized: as a whole,
template <typename Format>
struct Input {
  RowScale row;
  static Input at(device const RowScale* rows, uint row, constant WeightParams&) {
    return {rows[row]};
  }
};

/// or in the groups of the weight, float [rows][groups].
template <typename Values>
struct Input<Grouped<Values>> {
  device const float* scales;
  static Input at(device const RowScale* rows, uint row, constant WeightParams& weight) {
    const ulong groups = weight.columns / weight.group_size;
    return {reinterpret_cast<device const float*>(rows) + row * groups};
  }
};

inline int dot4(char4 a, char4 b) {
  return int(a.x) * int(b.x) + int(a.y) * int(b.y) + int(a.z) * int(b.z) + int(a.w) * int(b.w);
}

/// float(a - zero_point * row_sum) * (scale * row_scale), of the formats with a row scale.
inline float scaled(int a, thread const Block& block, RowScale row, uint lane) {
  const int centred = a - row.zero_point * row_sum(block, lane);
  return float(centred) * (row.scale * float_at(block, lane));
}

/// Stores one output of a row: bias added, and what is there where that is asked.
inline void store_output(float value, uint n, device const float* bias, device float* y,
                         constant LinearParams& params) {
  if (n >= params.weight.rows) return;
  if (params.has_bias) value = value + bias[n];
  if (params.accumulate) value = value + y[n];
  y[n] = value;
}

/// Stores what a lane has of blocks 2 * pair and 2 * pair + 1: two outputs, or one of SwiGLU.
/// \param y the row's outputs.
inline void store_pair(float first, float second, uint pair, uint lane, device const float* bias,
                       device float* y, constant LinearParams& params) {
  const uint n = 2 * pair * kLanes + lane;
  if (!params.swiglu) {
    store_output(first, n, bias, y, params);
    store_output(second, n + kLanes, bias, y, params);
    return;
  }
  const uint column = pair * kLanes + lane;
  if (column >= params.y_columns) return;
  if (params.has_bias) {
    first = first + bias[n];
    second = second + bias[n + kLanes];
  }
  const float value = swiglu(first, second);
  y[column] = params.accumulate ? y[column] + value : value;
}

/// Whether the weight has the second block of a pair.
inline uint blocks_of_pair(uint pair, constant LinearParams& params) {
  return 2 * pair * kLanes + kLanes < params.weight.rows ? 2 : 1;
}
