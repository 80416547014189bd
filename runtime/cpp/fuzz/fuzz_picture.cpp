/// Files of pictures: headers, EXIF and PPM are read by us, the rest by their libraries.

#include "fuzz/input.h"
#include "picture/read_picture.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto picture = thimble::read_picture(data, size, "picture");
  thimble::require(picture.ok() || !picture.message().empty());
  return 0;
}
