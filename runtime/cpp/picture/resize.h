#pragma once

#include <cstddef>
#include <vector>

#include "picture/picture.h"

namespace thimble {

/// Filters of resizing, by Pillow's numbers.
enum class Filter { kLanczos = 1, kBilinear = 2, kBicubic = 3 };

/// Whose picture of another size is made. Both sum pixels with integers and round to 8 bits between
/// rows and columns. Torch's integers have 16 bits, and rows are always its first.
enum class Reference { kPillow, kTorch };

/// A picture of another size, at least 1 x 1, as Pillow 13 resizes it, or torch 2.13 with
/// antialias=True on x86-64, to the bit: its rows and its columns, one after the other. A filter
/// reaches over as many pixels as become one.
Picture resize(const Picture& picture, size_t width, size_t height, Filter filter,
               Reference reference = Reference::kPillow);

/// How much of each of `from` pixels is in each of `to`: [to][from], without rounding to integers.
std::vector<double> shares(size_t from, size_t to, Filter filter);

}  // namespace thimble
