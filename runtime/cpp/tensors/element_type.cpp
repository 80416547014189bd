#include "tensors/element_type.h"

#include <cmath>
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

template <typename T>
T at(const void* data, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

/// Of a type of 16 bits: above infinity, which has only ones in the exponent.
bool is_nan_16(uint16_t bits, uint16_t infinity) { return (bits & 0x7FFF) > infinity; }

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

bool is_nan(const ElementType& type, const void* data, size_t index) {
  switch (type.scalar) {
    case Scalar::Float:
      return std::isnan(at<float>(data, index));
    case Scalar::Double:
      return std::isnan(at<double>(data, index));
    case Scalar::Half:
      return is_nan_16(at<uint16_t>(data, index), 0x7C00);
    case Scalar::BFloat16:
      return is_nan_16(at<uint16_t>(data, index), 0x7F80);
    default:
      return false;
  }
}

}  // namespace thimble
