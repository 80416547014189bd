#include "kernels/shared/embedding.h"

#include <cstring>

#include "kernels/shared/half.h"

namespace thimble::kernels {
namespace {

float float_at(const uint8_t* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The scale of a group of one row of a block.
float group_scale(const PackedWeight& weight, const uint8_t* block, size_t lane, size_t group) {
  const uint8_t* scales = block + weight.layout().scales;
  if (weight.format == WeightFormat::kInt4TwoLevel) {
    const uint8_t pair = scales[group / 8 * kLineBytes + lane * 4 + group % 8 / 2];
    const int multiple = pair >> (group % 2 * 4) & 15;
    return static_cast<float>(multiple) * float_at(block + lane * sizeof(float));
  }
  uint16_t bits;
  std::memcpy(&bits, scales + (group * kBlockRows + lane) * sizeof bits, sizeof bits);
  return float_of_bits(static_cast<uint32_t>(bits) << 16);
}

}  // namespace

void unpack_row(const PackedWeight& weight, size_t row, size_t columns, float* out) {
  const BlockLayout layout = weight.layout();
  const uint8_t* block = weight.data + row / kBlockRows * layout.bytes;
  const uint8_t* values = block + layout.values;
  const size_t lane = row % kBlockRows;
  if (weight.format == WeightFormat::kFloat32) {
    for (size_t k = 0; k < columns; ++k)
      out[k] = float_at(values + (k * kBlockRows + lane) * sizeof(float));
  } else if (weight.format == WeightFormat::kInt8) {
    const float scale = float_at(block + lane * sizeof(float));
    for (size_t k = 0; k < columns; ++k)
      out[k] =
          static_cast<float>(static_cast<int8_t>(values[k / 4 * kLineBytes + lane * 4 + k % 4])) *
          scale;
  } else {
    float scale = 0;
    for (size_t k = 0; k < columns; ++k) {
      if (k % weight.group_size == 0)
        scale = group_scale(weight, block, lane, k / weight.group_size);
      const uint8_t byte = values[k / 8 * kLineBytes + lane * 4 + k % 4];
      out[k] = static_cast<float>(7 - (k % 8 < 4 ? byte & 15 : byte >> 4)) * scale;
    }
  }
}

}  // namespace thimble::kernels
