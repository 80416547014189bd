#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensors/element_type.h"

namespace thimble {

using Shape = std::vector<int64_t>;

/// Such as "(1, 3, 224, 224)", or "()" of a single number.
inline std::string to_string(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

inline int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

/// A tensor whose elements, row by row, someone else keeps.
struct TensorView {
  std::string name;  ///< "": it has none
  const ElementType* type = nullptr;
  Shape shape;
  const void* data = nullptr;

  size_t bytes() const { return static_cast<size_t>(element_count(shape)) * type->size; }
};

/// A tensor with its elements, row by row.
struct Tensor {
  const ElementType* type = nullptr;
  Shape shape;
  std::vector<uint8_t> data;

  TensorView view(const std::string& name = "") const { return {name, type, shape, data.data()}; }
};

}  // namespace thimble
