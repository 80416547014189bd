#include "kernels/layout/pack.h"

#include <cstring>

namespace thimble::kernels {
namespace {

/// The weight that `out` becomes, zeroed.
PackedWeight start(WeightFormat format, size_t rows, size_t columns, size_t group_size,
                   uint8_t* out) {
  const size_t stored = stored_columns(format, columns, group_size);
  const PackedWeight weight{out, rows, stored, group_size, format};
  std::memset(out, 0, weight.bytes());
  return weight;
}

/// The code of the largest value that is not above a number.
size_t code_of(size_t bits, int number) {
  size_t code = 0;
  while (code < last_code(bits) && value_of(bits, code) > number) ++code;
  return code;
}

/// Writes the codes of all rows, of 2 to 6 bits; those of the padding are of zero.
void pack_codes(const PackedWeight& weight, const int8_t* values, size_t columns, uint8_t* out) {
  const BlockLayout layout = weight.layout();
  const size_t bits = bits_of(weight.format), low = low_bits(bits), columns_of_byte = 8 / low;
  for (size_t row = 0; row < weight.blocks() * kBlockRows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes + layout.values;
    for (size_t k = 0; k < weight.columns; ++k) {
      const bool inside = row < weight.rows && k < columns;
      const size_t code = code_of(bits, inside ? values[row * columns + k] : 0);
      uint8_t* step = block + k / kColumnStep * step_bytes(bits) + row % kBlockRows * 4 + k % 4;
      const size_t quad = k % kColumnStep / 4, upper = quad * (bits - low);  // where its bits start
      step[quad / columns_of_byte * kLineBytes] |= (code & last_code(low))
                                                   << (quad % columns_of_byte * low);
      if (bits > low) step[(low + upper / 8) * kLineBytes] |= (code >> low) << (upper % 8);
    }
  }
}

/// Writes the bytes of all rows.
void pack_bytes(const PackedWeight& weight, const int8_t* values, size_t columns, uint8_t* out) {
  const BlockLayout layout = weight.layout();
  for (size_t row = 0; row < weight.rows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes + layout.values;
    for (size_t k = 0; k < columns; ++k)
      block[k / 4 * kLineBytes + row % kBlockRows * 4 + k % 4] =
          static_cast<uint8_t>(values[row * columns + k]);
  }
}

/// Writes the float16 scales.
void pack_scales(const PackedWeight& weight, const uint16_t* scales, size_t columns, uint8_t* out) {
  const BlockLayout layout = weight.layout();
  const size_t groups = divide_up(columns, weight.group_size);
  for (size_t row = 0; row < weight.rows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes + layout.scales;
    for (size_t group = 0; group < groups; ++group)
      std::memcpy(block + (group * kBlockRows + row % kBlockRows) * sizeof(uint16_t),
                  &scales[row * groups + group], sizeof(uint16_t));
  }
}

}  // namespace

void pack_two_level(WeightFormat format, const int8_t* values, const uint8_t* multiples,
                    const float* row_scales, size_t rows, size_t columns, size_t group_size,
                    uint8_t* out) {
  const PackedWeight weight = start(format, rows, columns, group_size, out);
  const BlockLayout layout = weight.layout();
  const size_t groups = divide_up(columns, group_size);
  for (size_t row = 0; row < rows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes;
    const size_t lane = row % kBlockRows;
    int32_t sum = 0;
    for (size_t k = 0; k < columns; ++k)
      sum += values[row * columns + k] * multiples[row * groups + k / group_size];
    std::memcpy(block + lane * sizeof(float), &row_scales[row], sizeof(float));
    std::memcpy(block + kLineBytes + lane * sizeof sum, &sum, sizeof sum);
    for (size_t group = 0; group < groups; ++group) {
      uint8_t* lanes = block + layout.scales + group / 8 * kLineBytes + lane * 4;
      lanes[group % 8 / 2] |= multiples[row * groups + group] << (group % 2 * 4);
    }
  }
  pack_codes(weight, values, columns, out);
}

void pack_int4(const int8_t* values, const uint16_t* scales, size_t rows, size_t columns,
               size_t group_size, uint8_t* out) {
  const PackedWeight weight = start(WeightFormat::kInt4, rows, columns, group_size, out);
  pack_scales(weight, scales, columns, out);
  pack_codes(weight, values, columns, out);
}

void pack_int8_groups(const int8_t* values, const uint16_t* scales, size_t rows, size_t columns,
                      size_t group_size, uint8_t* out) {
  const PackedWeight weight = start(WeightFormat::kInt8Groups, rows, columns, group_size, out);
  pack_scales(weight, scales, columns, out);
  pack_bytes(weight, values, columns, out);
}

void pack_int8(const int8_t* values, const float* row_scales, size_t rows, size_t columns,
               uint8_t* out) {
  const PackedWeight weight = start(WeightFormat::kInt8, rows, columns, 0, out);
  const BlockLayout layout = weight.layout();
  for (size_t row = 0; row < rows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes;
    const size_t lane = row % kBlockRows;
    int32_t sum = 0;
    for (size_t k = 0; k < columns; ++k) sum += values[row * columns + k];
    std::memcpy(block + lane * sizeof(float), &row_scales[row], sizeof(float));
    std::memcpy(block + kLineBytes + lane * sizeof sum, &sum, sizeof sum);
  }
  pack_bytes(weight, values, columns, out);
}

void pack_float32(const float* values, size_t rows, size_t columns, uint8_t* out) {
  const PackedWeight weight = start(WeightFormat::kFloat32, rows, columns, 0, out);
  const BlockLayout layout = weight.layout();
  for (size_t row = 0; row < rows; ++row) {
    uint8_t* block = out + row / kBlockRows * layout.bytes;
    for (size_t k = 0; k < columns; ++k)
      std::memcpy(block + (k * kBlockRows + row % kBlockRows) * sizeof(float),
                  &values[row * columns + k], sizeof(float));
  }
}

}  // namespace thimble::kernels
