#include "picture/formats.h"

namespace thimble {

Result<StoredPicture> read_jpeg(const uint8_t* /*data*/, size_t /*size*/, const std::string& name) {
  return Status::error(
      name +
      " is a JPEG file, and this runner was built without libjpeg-turbo: write the "
      "picture as PPM, or build the runner where libjpeg-turbo is");
}

}  // namespace thimble
