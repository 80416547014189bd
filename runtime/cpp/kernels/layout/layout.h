#pragma once

/// \file
/// The layout of weights and quantized activations in memory: the same for every instruction set,
/// read in place from a mapped file. All numbers are little endian.
///
/// **Weights** (rows n = outputs, columns k = inputs) are cut into blocks of 16 rows. Each block is
/// contiguous; all have the same size, a multiple of 64 bytes ("a line"). Rows are padded to 16 and
/// columns to `stored_columns()` with values that multiply to zero.
///
/// `kInt4TwoLevel`: value[n][k] (-8..7) * multiple[n][k / group] (1..15) * row_scale[n]
///
///       float  row_scale[16]
///       int32  row_sum[16]               sum over k of value * multiple
///       uint32 multiples[ceil(G / 8)][16]    G groups; bits 4j..4j+3: group 8i + j; 0 beyond G
///       uint8  values[K / 8][16][4]      one line for 8 columns:
///
///                    byte 0           byte 1           byte 2           byte 3
///            low     k = 8s           8s + 1           8s + 2           8s + 3
///            high    k = 8s + 4       8s + 5           8s + 6           8s + 7
///
///       A nibble holds 7 - value (0..15): of 32 columns, the sum of nibble * q - 7 * (sum of q)
///       is -(sum of value * q), which always fits int16, because the lowest is -32768. The low
///       nibbles of a line are 16 rows by 4 columns, what one vpdpbusd / 4 sdot take; low and high
///       interleaved are the 8 columns of smmla.
///
/// `kInt5TwoLevel`: value (-16..15) * multiple (1..8) * row_scale
/// `kInt6TwoLevel`: value (-32..31) * multiple (1..4) * row_scale
///
///       The same but for the values: a code is 15 - value (0..31) or 31 - value (0..63), and 32
///       columns take 5 or 6 lines. Four have the low nibbles of the codes, as above. Then come the
///       bits above: of 5 bits a line for all 32 columns, of 6 bits a line for each 16. Byte
///       4 * row + j of such a line has, from its low bits on, one or two bits of each of its
///       columns j, 4 + j, 8 + j, ... A value * multiple fits int8, as that of 4 bits does.
///
/// `kInt2TwoLevel`: value (7, 2, -2, -7) * multiple (1..15) * row_scale
/// `kInt3TwoLevel`: value (8, 5, 3, 1, -1, -3, -5, -8) * multiple (1..15) * row_scale
///
///       The same with codes 0, 1, 2, ... of these values, and 32 columns take 2 or 3 lines. Two
///       have the low two bits of the codes: byte 4 * row + j of a line, from its low bits on,
///       those of columns j, 4 + j, 8 + j and 12 + j of its 16. Of 3 bits a line follows as of 5.
///       Zero is no value: padded columns have any, and are not in row_sum.
///
/// `kInt4`: value[n][k] (-8..7) * scale[n][k / group], scales in float16
///
///       uint16 scales[G][16]             padded to whole lines
///       uint8  values[K / 8][16][4]      as above
///
/// `kInt8`: value[n][k] (-128..127) * row_scale[n]
///
///       float  row_scale[16]
///       int32  row_sum[16]               sum over k of value
///       int8   values[K / 4][16][4]
///
/// `kInt8Groups`: value[n][k] (-128..127) * scale[n][k / group], scales in float16
///
///       uint16 scales[G][16]             padded to whole lines
///       int8   values[K / 4][16][4]
///
/// `kFloat32`
///
///       float  values[K][16]
///
/// **Activations** are quantized per row (token) to int8 as torchao's `int8_asym_per_token` does:
/// x = (q - zero_point) * scale; for a weight with float16 scales, in the groups of the weight:
/// x = q * scale of the group. Rows are cut into tiles of `mr`, the last one padded with zeros:
///
///       int8   values[ceil(M / mr)][K / kr][mr][kr]
///       int32  group_bias[ceil(M / mr)][K / 32][mr]      -7 * (sum of 32 q)
///       float  group_scales[ceil(M / mr)][K / group][mr]
///
/// K is `stored_columns()`; q is 0 in the padding. Where `kr` does not divide K, the last step is
/// narrower: quantized_offset() is the definition.

#include <cstddef>
#include <cstdint>

namespace thimble::kernels {

enum class WeightFormat : uint8_t {
  kInt4TwoLevel = 0,
  kInt5TwoLevel = 1,
  kInt6TwoLevel = 2,
  kInt4 = 3,
  kInt8 = 4,
  kInt8Groups = 5,
  kFloat32 = 6,
  kInt2TwoLevel = 7,
  kInt3TwoLevel = 8
};
constexpr size_t kFormats = 9;

/// Of a value.
constexpr size_t bits_of(WeightFormat format) {
  constexpr size_t kBits[] = {4, 5, 6, 4, 8, 8, 32, 2, 3};
  return kBits[static_cast<size_t>(format)];
}
/// The value of a code, falling from the largest. Of 2 and 3 bits those are chosen that fit normal
/// numbers best.
constexpr int value_of(size_t bits, size_t code) {
  constexpr int kOfTwo[] = {7, 2, -2, -7}, kOfThree[] = {8, 5, 3, 1, -1, -3, -5, -8};
  if (bits == 2) return kOfTwo[code];
  if (bits == 3) return kOfThree[code];
  return (1 << (bits - 1)) - 1 - static_cast<int>(code);
}
constexpr int largest_value(size_t bits) { return value_of(bits, 0); }
constexpr size_t last_code(size_t bits) { return (size_t{1} << bits) - 1; }
/// By how much a code's value is below the largest: what kernels multiply. From 4 bits on it is the
/// code.
constexpr uint8_t drop_of(size_t bits, size_t code) {
  return static_cast<uint8_t>(largest_value(bits) - value_of(bits, code));
}
/// Whether -(sum of value * q) of 32 columns always fits int16.
constexpr bool sums_fit_words(size_t bits) { return bits == 2 || bits == 4; }

constexpr bool has_two_levels(WeightFormat format) {
  return format <= WeightFormat::kInt6TwoLevel || format >= WeightFormat::kInt2TwoLevel;
}
/// The largest multiple of a format with two levels.
constexpr int largest_multiple(WeightFormat format) {
  return bits_of(format) <= 4 ? 15 : 128 >> (bits_of(format) - 1);
}
/// Whether each group has a float16 scale of its own.
constexpr bool has_float_groups(WeightFormat format) {
  return format == WeightFormat::kInt4 || format == WeightFormat::kInt8Groups;
}
/// Whether a row has several scales.
constexpr bool in_groups(WeightFormat format) {
  return has_two_levels(format) || has_float_groups(format);
}
/// Whether a row's sum is an integer, of any part of its columns: its scale, if any, comes last.
constexpr bool has_integer_sums(WeightFormat format) {
  return has_two_levels(format) || format == WeightFormat::kInt8;
}

constexpr size_t kBlockRows = 16;
constexpr size_t kLineBytes = 64;
/// Columns are padded to a multiple of this, whatever the group.
constexpr size_t kColumnStep = 32;
/// With more columns, the largest sum (255 * 128 * columns) does not fit int32.
constexpr size_t kMostColumns = 65536;

/// kColumnStep columns of a block of integers: as many lines as a value has bits.
constexpr size_t step_bytes(size_t bits) { return bits * kLineBytes; }
/// The low bits of a code that lie together, in as many lines; the lines behind have the others.
constexpr size_t low_bits(size_t bits) { return bits < 4 ? 2 : 4; }

constexpr size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }
constexpr size_t round_up(size_t a, size_t b) { return divide_up(a, b) * b; }

/// The number of columns as stored; those of a float32 weight are not padded.
/// \param group_size 32, 64 or 128 for the formats in groups, 0 for the others.
constexpr size_t stored_columns(WeightFormat format, size_t columns, size_t group_size) {
  if (format == WeightFormat::kFloat32) return columns;
  return round_up(columns, group_size > kColumnStep ? group_size : kColumnStep);
}

/// Where the parts of a block start, in bytes from the start of the block.
struct BlockLayout {
  size_t scales;  ///< multiples, or float16 scales
  size_t values;
  size_t bytes;  ///< of the complete block
};

/// \param columns as stored.
constexpr BlockLayout block_layout(WeightFormat format, size_t columns, size_t group_size) {
  const size_t value_bytes = columns * kBlockRows * bits_of(format) / 8;
  switch (format) {
    case WeightFormat::kInt2TwoLevel:
    case WeightFormat::kInt3TwoLevel:
    case WeightFormat::kInt4TwoLevel:
    case WeightFormat::kInt5TwoLevel:
    case WeightFormat::kInt6TwoLevel: {
      const size_t values = 2 * kLineBytes + divide_up(columns / group_size, 8) * kLineBytes;
      return {2 * kLineBytes, values, values + value_bytes};
    }
    case WeightFormat::kInt4:
    case WeightFormat::kInt8Groups: {
      const size_t scale_bytes = columns / group_size * kBlockRows * sizeof(uint16_t);
      const size_t values = round_up(scale_bytes, kLineBytes);
      return {0, values, values + value_bytes};
    }
    case WeightFormat::kInt8:
      return {0, 2 * kLineBytes, 2 * kLineBytes + value_bytes};
    case WeightFormat::kFloat32:
      break;
  }
  return {0, 0, value_bytes};
}

/// A packed weight, not owned: `data` aligned to 64 bytes.
struct PackedWeight {
  const uint8_t* data;
  size_t rows;        ///< outputs
  size_t columns;     ///< inputs, as stored
  size_t group_size;  ///< 0 where the format has no groups
  WeightFormat format;

  size_t blocks() const { return divide_up(rows, kBlockRows); }
  BlockLayout layout() const { return block_layout(format, columns, group_size); }
  size_t bytes() const { return blocks() * layout().bytes; }
  /// The groups in which its inputs are quantized; 0: each row as a whole.
  size_t input_group() const { return has_float_groups(format) ? group_size : 0; }
};

/// How one row was quantized as a whole: x = (q - zero_point) * scale.
struct RowParams {
  float scale;
  int32_t zero_point;
  int32_t sum;  ///< of q over all columns
};

/// A tile of quantized rows: `mr` rows, `kr` columns (4, 8 or 64) at a time.
struct Tile {
  size_t mr;
  size_t kr;
};

/// Most rows of `matvec`.
constexpr size_t kMatvecRows = 8;
/// The tile of `matvec`: all of its rows, padded to 1, 2, 4 or 8.
constexpr Tile matvec_tile(size_t rows) {
  return {rows <= 2 ? rows : rows <= 4 ? size_t{4} : kMatvecRows, 4};
}

/// Quantized activations, not owned.
struct QuantizedRows {
  int8_t* values;
  RowParams* params;    ///< one per row, unless it is quantized in groups
  int32_t* group_bias;  ///< [tiles][columns / 32][mr]
  float* group_scales;  ///< [tiles][columns / group_size][mr], if it is
  size_t rows;
  size_t columns;  ///< padded
  Tile tile;
  size_t group_size;  ///< columns that are quantized together; 0: all of a row

  /// `count` rows from `first` on, the first of a tile.
  QuantizedRows part(size_t first, size_t count) const {
    QuantizedRows some = *this;
    some.values += first * columns;
    some.params += first;
    some.group_bias += first * (columns / kColumnStep);
    if (group_size > 0) some.group_scales += first * (columns / group_size);
    some.rows = count;
    return some;
  }

  /// The scale of a row's group.
  float group_scale(size_t row, size_t group) const {
    return group_scales[row / tile.mr * tile.mr * (columns / group_size) + group * tile.mr +
                        row % tile.mr];
  }
};

/// -kOffset times the sum of q, of a group_bias, -7 times the sum: what an offset of the weights
/// adds too much. Times the inverse of 7 modulo 2^32 is a division without a remainder.
template <uint32_t kOffset>
[[gnu::always_inline]] inline int32_t offset_bias(int32_t group_bias) {
  constexpr uint32_t kInverseOf7 = 0xB6DB6DB7;
  return static_cast<int32_t>(static_cast<uint32_t>(group_bias) * (kInverseOf7 * kOffset));
}

/// The offset of the value of row m and column k.
/// \param columns padded.
constexpr size_t quantized_offset(size_t m, size_t k, size_t columns, Tile tile) {
  const size_t step = k / tile.kr * tile.kr;
  const size_t width = columns - step < tile.kr ? columns - step : tile.kr;
  return m / tile.mr * tile.mr * columns + step * tile.mr + m % tile.mr * width + (k - step);
}

constexpr size_t quantized_values_bytes(size_t rows, size_t columns, Tile tile) {
  return round_up(rows, tile.mr) * columns;
}

}  // namespace thimble::kernels
