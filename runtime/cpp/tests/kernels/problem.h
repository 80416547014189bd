#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "kernels/layout/pack.h"
#include "kernels/select/variants.h"

namespace thimble::test {

/// Memory aligned as a mapped file's.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size)
      : data_(static_cast<uint8_t*>(::operator new(size, kAlignment))), size_(size) {}
  ~AlignedBuffer() { ::operator delete(data_, kAlignment); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};

  uint8_t* data_;
  size_t size_;
};

/// A fixed sequence of numbers that look random (xorshift32).
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed * 2654435761u + 1) {}

  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return state_;
  }
  /// In [low, high].
  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(next() % static_cast<uint32_t>(high - low + 1));
  }
  /// In [-1, 1).
  float real() { return static_cast<int32_t>(next()) * 0x1p-31f; }

 private:
  uint32_t state_;
};

/// What the numbers of a problem are.
enum class Fill {
  kRandom,
  kExtremes,        ///< every number at one of its ends
  kLargestProduct,  ///< the lowest activation, the lowest value and the largest multiple everywhere
  kTinyScales,      ///< zero and denormal scales
  kSignedScales,    ///< of groups, of both signs, some of them the largest
};

/// A linear layer with random numbers: weights packed, activations quantized for a tile.
class Problem {
 public:
  Problem(kernels::WeightFormat format, size_t rows, size_t outputs, size_t columns,
          size_t group_size, kernels::Tile tile, Fill fill = Fill::kRandom)
      : format_(format),
        rows_(rows),
        outputs_(outputs),
        columns_(columns),
        group_size_(kernels::in_groups(format) ? group_size : 0),
        fill_(fill),
        stored_(kernels::stored_columns(format, columns, group_size_)),
        packed_(weight(nullptr).bytes()),
        scratch_(kernels::linear_scratch_bytes(stored_)),
        values_(kernels::quantized_values_bytes(rows, stored_, tile)),
        params_(rows),
        group_bias_(kernels::round_up(rows, tile.mr) * stored_ / kernels::kColumnStep),
        group_scales_(group_bias_.size()),
        tile_(tile),
        bias_(outputs),
        y_(rows * outputs) {
    fill_weight();
    fill_activations();
    Numbers numbers(5);
    for (float& value : bias_) value = numbers.real();
    for (float& value : y_) value = numbers.real();
  }

  kernels::LinearArgs args() {
    return {activations(),
            weight(packed_.data()),
            0,
            weight(nullptr).blocks(),
            y_.data(),
            outputs_,
            nullptr,
            false,
            scratch_.data()};
  }
  const float* bias() const { return bias_.data(); }
  const std::vector<float>& y() const { return y_; }

 private:
  kernels::PackedWeight weight(const uint8_t* data) const {
    return {data, outputs_, stored_, group_size_, format_};
  }
  kernels::QuantizedRows activations() {
    return {values(), params_.data(), group_bias_.data(),           group_scales_.data(), rows_,
            stored_,  tile_,          weight(nullptr).input_group()};
  }

  int8_t* values() { return reinterpret_cast<int8_t*>(values_.data()); }

  int8_t weight_value(Numbers& numbers) const {
    const size_t bits = kernels::bits_of(format_);
    const auto last = static_cast<int32_t>(kernels::last_code(bits));
    int32_t code = last;
    if (fill_ == Fill::kExtremes)
      code = numbers.next() & 64 ? last : 0;
    else if (fill_ != Fill::kLargestProduct)
      code = numbers.between(0, last);
    return static_cast<int8_t>(kernels::value_of(bits, static_cast<size_t>(code)));
  }
  int8_t activation(Numbers& numbers) const {
    if (fill_ == Fill::kLargestProduct) return -128;
    if (fill_ == Fill::kExtremes) return numbers.next() & 64 ? -128 : 127;
    return static_cast<int8_t>(numbers.between(-128, 127));
  }
  float row_scale(Numbers& numbers) const {
    if (fill_ == Fill::kTinyScales) return numbers.next() & 64 ? 0.0f : 3e-42f;
    return 0.01f + 0.01f * numbers.real();
  }

  /// The bits of a float16.
  uint16_t group_scale(Numbers& numbers) const {
    if (fill_ == Fill::kTinyScales) return static_cast<uint16_t>(numbers.next() & 0x8003);
    if (fill_ == Fill::kSignedScales)
      return static_cast<uint16_t>((numbers.next() & 0x8000) | numbers.between(0x0001, 0x7BFF));
    return static_cast<uint16_t>(numbers.between(0x2C00, 0x2FFF));
  }

  void fill_weight() {
    using kernels::WeightFormat;
    Numbers numbers(static_cast<uint32_t>(outputs_ * 31 + columns_));
    std::vector<int8_t> values(outputs_ * columns_);
    for (int8_t& value : values) value = weight_value(numbers);
    std::vector<float> row_scales(outputs_);
    for (float& scale : row_scales) scale = row_scale(numbers);
    if (format_ == WeightFormat::kInt8) {
      kernels::pack_int8(values.data(), row_scales.data(), outputs_, columns_, packed_.data());
      return;
    }
    const size_t groups = kernels::divide_up(columns_, group_size_);
    if (kernels::has_two_levels(format_)) {
      std::vector<uint8_t> multiples(outputs_ * groups);
      const int32_t largest = kernels::largest_multiple(format_);
      for (uint8_t& multiple : multiples)
        multiple = static_cast<uint8_t>(
            fill_ == Fill::kLargestProduct ? largest : numbers.between(1, largest));
      kernels::pack_two_level(format_, values.data(), multiples.data(), row_scales.data(), outputs_,
                              columns_, group_size_, packed_.data());
      return;
    }
    std::vector<uint16_t> scales(outputs_ * groups);
    for (uint16_t& scale : scales) scale = group_scale(numbers);
    const auto pack =
        format_ == WeightFormat::kInt4 ? kernels::pack_int4 : kernels::pack_int8_groups;
    pack(values.data(), scales.data(), outputs_, columns_, group_size_, packed_.data());
  }

  void fill_activations() {
    const size_t steps = stored_ / kernels::kColumnStep;
    Numbers numbers(static_cast<uint32_t>(rows_ * 17 + columns_));
    std::memset(values(), 0, values_.size());
    for (int32_t& bias : group_bias_) bias = 0;
    const size_t mr = tile_.mr;
    for (size_t m = 0; m < rows_; ++m) {
      int32_t total = 0;
      for (size_t k = 0; k < columns_; ++k) {
        const int8_t q = activation(numbers);
        values()[kernels::quantized_offset(m, k, stored_, tile_)] = q;
        group_bias_[(m / mr * steps + k / kernels::kColumnStep) * mr + m % mr] -= 7 * q;
        total += q;
      }
      const int32_t zero_point = fill_ == Fill::kRandom ? numbers.between(-128, 127) : 127;
      const float scale = fill_ == Fill::kTinyScales ? 1.2e-38f : 0.05f + 0.04f * numbers.real();
      params_[m] = {scale, zero_point, total};
    }
    const size_t group_size = weight(nullptr).input_group();
    const size_t groups = group_size > 0 ? stored_ / group_size : 0;
    for (size_t m = 0; m < rows_; ++m)
      for (size_t group = 0; group < groups; ++group)
        group_scales_[m / mr * mr * groups + group * mr + m % mr] =
            fill_ == Fill::kTinyScales ? 1.2e-38f : 0.05f + 0.04f * numbers.real();
  }

  kernels::WeightFormat format_;
  size_t rows_, outputs_, columns_, group_size_;
  Fill fill_;
  size_t stored_;
  AlignedBuffer packed_;
  AlignedBuffer scratch_;
  AlignedBuffer values_;  // as a workspace has them: tiles are read a line at a time
  std::vector<kernels::RowParams> params_;
  std::vector<int32_t> group_bias_;
  std::vector<float> group_scales_;
  kernels::Tile tile_;
  std::vector<float> bias_;
  std::vector<float> y_;
};

}  // namespace thimble::test
