#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"
#include "picture/picture.h"

namespace thimble {

/// Reads a file in memory: PPM or PGM, and PNG, JPEG and WebP where this build has a library for
/// them. What is transparent lies on white, the high byte counts of 16 bits, and the picture is
/// turned as its EXIF data says. `name` is what to call it. Fails with a sentence if it is
/// something else, damaged, cut off, an animation, or of more than kMostPixels.
Result<Picture> read_picture(const uint8_t* data, size_t size, const std::string& name);

}  // namespace thimble
