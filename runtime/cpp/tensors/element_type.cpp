#include "tensors/element_type.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace thimble {
namespace {

using Scalar = executorch::runtime::etensor::ScalarType;

constexpr ElementType kTypes[] = {
    {"float32", "<f4", 4, Scalar::Float}, {"float64", "<f8", 8, Scalar::Double},
    {"float16", "<f2", 2, Scalar::Half},  {"bfloat16", "", 2, Scalar::BFloat16},
    {"int64", "<i8", 8, Scalar::Long},    {"int32", "<i4", 4, Scalar::Int},
    {"int16", "<i2", 2, Scalar::Short},   {"int8", "|i1", 1, Scalar::Char},
    {"uint8", "|u1", 1, Scalar::Byte},    {"bool", "|b1", 1, Scalar::Bool},
};

template <typename Match>
const ElementType* find(const Match& match) {
  for (const ElementType& type : kTypes) {
    if (match(type)) return &type;
  }
  return nullptr;
}

/// The first element whose bits without the sign are above those of infinity.
template <typename Bits>
std::optional<size_t> find_above(const void* data, size_t count, Bits infinity) {
  constexpr size_t kTogether = 4096;  // first whether there is one, which vectors find quickly
  const Bits magnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  const auto* bytes = static_cast<const uint8_t*>(data);
  for (size_t begin = 0; begin < count; begin += kTogether) {
    const size_t end = std::min(count, begin + kTogether);
    Bits any = 0;
    for (size_t i = begin; i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
      any |= static_cast<Bits>((bits & magnitude) > infinity);
    }
    for (size_t i = begin; any != 0 && i < end; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
      if ((bits & magnitude) > infinity) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

const ElementType* find_element_type(std::string_view name) {
  return find([=](const ElementType& type) { return type.name == name; });
}

const ElementType* find_numpy_type(std::string_view numpy) {
  return find([=](const ElementType& type) { return !numpy.empty() && type.numpy == numpy; });
}

const ElementType* find_element_type(Scalar scalar) {
  return find([=](const ElementType& type) { return type.scalar == scalar; });
}

std::string element_type_names() {
  std::string names;
  for (const ElementType& type : kTypes) {
    names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

uint16_t to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float from_bfloat16(uint16_t half) {
  const uint32_t bits = uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::optional<size_t> find_nan(const ElementType& type, const void* data, size_t count) {
  switch (type.scalar) {
    case Scalar::Float:
      return find_above<uint32_t>(data, count, 0x7F800000);
    case Scalar::Double:
      return find_above<uint64_t>(data, count, 0x7FF0000000000000);
    case Scalar::Half:
      return find_above<uint16_t>(data, count, 0x7C00);
    case Scalar::BFloat16:
      return find_above<uint16_t>(data, count, 0x7F80);
    default:
      return std::nullopt;
  }
}

}  // namespace thimble
