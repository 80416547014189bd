#include "kernels/shared/embedding.h"

#include <cstring>

#include "kernels/shared/codes.h"
#include "kernels/shared/half.h"

namespace thimble::kernels {
namespace {

float float_at(const uint8_t* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The int8 of column k of a row.
int byte_at(const uint8_t* values, size_t lane, size_t k) {
  return static_cast<int8_t>(values[k / 4 * kLineBytes + lane * 4 + k % 4]);
}

/// The scale of a group of one row of a block.
float group_scale(const PackedWeight& weight, const uint8_t* block, size_t lane, size_t group) {
  const uint8_t* scales = block + weight.layout().scales;
  if (has_two_levels(weight.format)) {
    const uint8_t pair = scales[group / 8 * kLineBytes + lane * 4 + group % 8 / 2];
    const int multiple = pair >> (group % 2 * 4) & 15;
    return static_cast<float>(multiple) * float_at(block + lane * sizeof(float));
  }
  uint16_t bits;
  std::memcpy(&bits, scales + (group * kBlockRows + lane) * sizeof bits, sizeof bits);
  return half_to_float(bits);
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
    return;
  }
  const size_t bits = bits_of(weight.format);
  float scale = float_at(block + lane * sizeof(float));  // of kInt8
  for (size_t k = 0; k < columns; ++k) {
    if (weight.group_size != 0 && k % weight.group_size == 0)
      scale = group_scale(weight, block, lane, k / weight.group_size);
    const int value = bits == 8 ? byte_at(values, lane, k) : coded_value(values, bits, lane, k);
    out[k] = static_cast<float>(value) * scale;
  }
}

}  // namespace thimble::kernels
