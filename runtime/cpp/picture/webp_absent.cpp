#include "picture/formats.h"

namespace thimble {

Result<StoredPicture> read_webp(const uint8_t* /*data*/, size_t /*size*/, const std::string& name) {
  return Status::error(name +
                       " is a WebP file, and this runner was built without libwebp: build it with, "
                       "or write the picture as PPM");
}

}  // namespace thimble
