#pragma once

#include <executorch/runtime/core/portable_type/scalar_type.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thimble {

/// A type of a tensor's elements.
struct ElementType {
  std::string_view name;   ///< as numpy and torch write it, such as "float32"
  std::string_view numpy;  ///< in the header of a .npy file, little endian; "": numpy has none
  size_t size;             ///< bytes
  executorch::runtime::etensor::ScalarType scalar;
};

/// The type of that name; null if there is none.
const ElementType* find_element_type(std::string_view name);
/// The type that a .npy file calls so; null if there is none.
const ElementType* find_numpy_type(std::string_view numpy);
const ElementType* find_element_type(executorch::runtime::etensor::ScalarType scalar);

/// The names of all types, for a sentence.
std::string element_type_names();

/// The upper half of a float32, rounded to the nearest, ties to even. A NaN stays one.
uint16_t to_bfloat16(float value);
float from_bfloat16(uint16_t bits);

/// The first element of a float type that is not a number; nothing if there is none.
std::optional<size_t> find_nan(const ElementType& type, const void* data, size_t count);

}  // namespace thimble
