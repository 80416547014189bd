#include "picture/formats.h"

namespace thimble {

Result<StoredPicture> read_webp(const uint8_t* /*data*/, size_t /*size*/, const std::string& name) {
  return Status::error(name +
                       " is a WebP file, and this runner was built without libwebp: write the "
                       "picture as PPM, or build the runner where libwebp is");
}

}  // namespace thimble
