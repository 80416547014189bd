#include "picture/formats.h"

namespace thimble {

Result<StoredPicture> read_jpeg(const uint8_t* /*data*/, size_t /*size*/, const std::string& name) {
  return Status::error(
      name +
      " is a JPEG file, and this runner was built without libjpeg-turbo: build it with, "
      "or write the picture as PPM");
}

}  // namespace thimble
