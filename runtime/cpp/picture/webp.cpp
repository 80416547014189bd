#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "picture/color.h"
#include "picture/exif.h"
#include "picture/formats.h"

namespace thimble {
namespace {

/// That of the chunk that has EXIF data. A file is chunks of a name, a size and as many bytes,
/// even.
int orientation_of(const uint8_t* data, size_t size) {
  constexpr size_t kFirst = 12, kHead = 8;
  for (size_t at = kFirst; size >= kHead && at <= size - kHead;) {
    uint32_t length = 0;
    std::memcpy(&length, data + at + 4, sizeof(length));
    const size_t rest = size - at - kHead, used = std::min<size_t>(length, rest);
    if (std::memcmp(data + at, "EXIF", 4) == 0) return exif_orientation(data + at + kHead, used);
    at += kHead + std::min<size_t>(used + used % 2, rest);
  }
  return 1;
}

}  // namespace

Result<StoredPicture> read_webp(const uint8_t* data, size_t size, const std::string& name) {
  WebPBitstreamFeatures features{};
  const VP8StatusCode known = WebPGetFeatures(data, size, &features);
  if (known == VP8_STATUS_NOT_ENOUGH_DATA) {
    return Status::error(name + " is cut off: write it again");
  }
  if (known != VP8_STATUS_OK) {
    return Status::error(name + " is a damaged WebP file: write it again");
  }
  if (features.has_animation != 0) {
    return Status::error(name + " is an animation: save one of its pictures");
  }
  const auto width = static_cast<size_t>(features.width);
  const auto height = static_cast<size_t>(features.height);
  const Status fits = check_size(width, height, name);
  if (!fits.ok()) return fits;
  StoredPicture stored;
  Picture& picture = stored.picture;
  picture.width = width;
  picture.height = height;
  picture.pixels.resize(3 * width * height);
  const bool alpha = features.has_alpha != 0;
  std::vector<uint8_t> covering(alpha ? 4 * width * height : 0);
  const uint8_t* decoded =
      alpha ? WebPDecodeRGBAInto(data, size, covering.data(), covering.size(),
                                 static_cast<int>(4 * width))
            : WebPDecodeRGBInto(data, size, picture.pixels.data(), picture.pixels.size(),
                                static_cast<int>(3 * width));
  if (decoded == nullptr) {
    return Status::error(name + " is a damaged WebP file, or cut off: write it again");
  }
  for (size_t i = 0; i < covering.size(); i += 4) {
    for (size_t color = 0; color < 3; ++color) {
      picture.pixels[3 * (i / 4) + color] = over_white(covering[i + color], covering[i + 3]);
    }
  }
  stored.orientation = orientation_of(data, size);
  return stored;
}

}  // namespace thimble
