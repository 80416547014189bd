#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"
#include "picture/picture.h"

namespace thimble {

/// What a file holds, before it is turned upright.
struct StoredPicture {
  Picture picture;
  int orientation = 1;  ///< EXIF's: 1 to 8
};

/// Read a file of each format in memory; `name` is what to call it. They fail with a sentence if it
/// is damaged, cut off, an animation or too large, or if this build has no library for it.
Result<StoredPicture> read_ppm(const uint8_t* data, size_t size, const std::string& name);
Result<StoredPicture> read_png(const uint8_t* data, size_t size, const std::string& name);
Result<StoredPicture> read_jpeg(const uint8_t* data, size_t size, const std::string& name);
Result<StoredPicture> read_webp(const uint8_t* data, size_t size, const std::string& name);

}  // namespace thimble
