#pragma once

#include <cstddef>
#include <cstdint>

#include "picture/picture.h"

namespace thimble {

/// The orientation that EXIF data in TIFF's form has: 1 to 8; 1 if it has none.
int exif_orientation(const uint8_t* data, size_t size);

/// A picture that is stored with an orientation, upright.
Picture upright(Picture picture, int orientation);

}  // namespace thimble
