#pragma once

#include <cstddef>

#include "picture/picture.h"

namespace thimble {

/// Filters of resizing, by Pillow's numbers.
enum class Filter { kLanczos = 1, kBilinear = 2, kBicubic = 3 };

/// A picture of another size, at least 1 x 1, as Pillow 13 resizes it, to the bit: its rows and its
/// columns, one after the other, each rounded to 8 bits. A filter reaches over as many pixels as
/// become one.
Picture resize(const Picture& picture, size_t width, size_t height, Filter filter);

}  // namespace thimble
