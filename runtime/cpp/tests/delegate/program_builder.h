#pragma once

#include <memory>
#include <string>
#include <vector>

#include "delegate/program/program.h"
#include "kernels/layout/pack.h"
#include "tests/kernels/problem.h"

namespace thimble::test {

/// A program of tokens and a start_pos, in parts, with random numbers.
class ProgramBuilder {
 public:
  ProgramBuilder() : numbers_(11) {
    program.cache_type = kernels::CacheType::kFloat16;
    program.floats = "floats";
    program.inputs = {{cpu::Role::kTokens, 0}, {cpu::Role::kStartPos, 0}};
  }

  /// The weights as the executor takes them.
  std::vector<kernels::PackedWeight> packed() const {
    std::vector<kernels::PackedWeight> result;
    for (size_t i = 0; i < weights.size(); ++i) {
      result.push_back(program.weights[i].packed(weights[i]->data()));
    }
    return result;
  }

  /// The numbers of the adapters, likewise.
  std::vector<const uint16_t*> adapters() const {
    std::vector<const uint16_t*> result;
    for (const std::vector<uint16_t>& numbers : adapter_numbers) result.push_back(numbers.data());
    return result;
  }

  cpu::Program program;  ///< not yet checked
  std::vector<std::unique_ptr<AlignedBuffer>> weights;
  std::vector<float> floats;
  std::vector<std::vector<uint16_t>> adapter_numbers;

 protected:
  uint32_t add_slot(size_t width) {
    program.slots.push_back({width});
    return static_cast<uint32_t>(program.slots.size() - 1);
  }

  void add_op(cpu::OpKind kind) {
    const auto id = static_cast<uint32_t>(program.ops.size());
    program.ops.push_back({"op" + std::to_string(id), std::move(kind), id, id});
  }

  cpu::Floats add_floats(size_t count, float middle, float spread) {
    const cpu::Floats piece{floats.size(), static_cast<uint32_t>(count)};
    for (size_t i = 0; i < count; ++i) floats.push_back(middle + spread * numbers_.real());
    return piece;
  }

  uint32_t add_weight(size_t rows, size_t columns, kernels::WeightFormat format) {
    using kernels::WeightFormat;
    const bool grouped = kernels::in_groups(format);
    const size_t group = grouped ? 32 : 0;
    const auto index = static_cast<uint32_t>(program.weights.size());
    program.weights.push_back({"w" + std::to_string(index), rows, columns, group, format});
    weights.push_back(
        std::make_unique<AlignedBuffer>(program.weights.back().packed(nullptr).bytes()));
    uint8_t* out = weights.back()->data();
    if (format == WeightFormat::kFloat32) {
      kernels::pack_float32(reals(rows * columns, 0.2f).data(), rows, columns, out);
      return index;
    }
    const int32_t most = kernels::largest_value(kernels::bits_of(format));
    std::vector<int8_t> values(rows * columns);
    for (int8_t& value : values) value = static_cast<int8_t>(numbers_.between(-most - 1, most));
    const size_t groups = grouped ? kernels::divide_up(columns, group) : 0;
    if (grouped && !kernels::has_two_levels(format)) {
      std::vector<uint16_t> scales(rows * groups);
      const bool nibbles = format == WeightFormat::kInt4;
      const int32_t low = nibbles ? 0x2400 : 0x1400;  // 0.016 and 0.001, up to twice that
      for (uint16_t& scale : scales) {
        scale = static_cast<uint16_t>(numbers_.between(low, low + 0x3FF));
      }
      const auto pack = nibbles ? kernels::pack_int4 : kernels::pack_int8_groups;
      pack(values.data(), scales.data(), rows, columns, group, out);
      return index;
    }
    std::vector<float> scales(rows);
    for (float& scale : scales) scale = (0.2f + 0.1f * numbers_.real()) / (grouped ? 60 : 127);
    if (format == WeightFormat::kInt8) {
      kernels::pack_int8(values.data(), scales.data(), rows, columns, out);
      return index;
    }
    std::vector<uint8_t> multiples(rows * groups);
    const int32_t largest = kernels::largest_multiple(format);
    for (uint8_t& multiple : multiples)
      multiple = static_cast<uint8_t>(numbers_.between(1, largest));
    kernels::pack_two_level(format, values.data(), multiples.data(), scales.data(), rows, columns,
                            group, out);
    return index;
  }

  /// A float32 weight of these rows.
  uint32_t add_weight(const std::vector<float>& values, size_t columns) {
    const auto index = static_cast<uint32_t>(program.weights.size());
    const size_t rows = values.size() / columns;
    program.weights.push_back(
        {"w" + std::to_string(index), rows, columns, 0, kernels::WeightFormat::kFloat32});
    weights.push_back(
        std::make_unique<AlignedBuffer>(program.weights.back().packed(nullptr).bytes()));
    kernels::pack_float32(values.data(), rows, columns, weights.back()->data());
    return index;
  }

  std::vector<float> reals(size_t count, float size) {
    std::vector<float> values(count);
    for (float& value : values) value = size * numbers_.real();
    return values;
  }

  static cpu::LinearOp linear(uint32_t input, uint32_t output, uint32_t weight) {
    return {input, output, weight, {}, {}, 1e-5f, false, kernels::Function::kAdd,
            false, false,  false};
  }

 private:
  Numbers numbers_;
};

}  // namespace thimble::test
