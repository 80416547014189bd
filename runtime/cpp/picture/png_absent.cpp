#include "picture/formats.h"

namespace thimble {

Result<StoredPicture> read_png(const uint8_t* /*data*/, size_t /*size*/, const std::string& name) {
  return Status::error(name +
                       " is a PNG file, and this runner was built without libpng: write the "
                       "picture as PPM, or build the runner where libpng is");
}

}  // namespace thimble
