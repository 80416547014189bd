#include "c_interface/given_pictures.h"

#include <cstdint>
#include <string>
#include <utility>

#include "c_interface/shared.h"
#include "picture/read_picture.h"

namespace thimble {

Result<Picture> read_given(const thimble_picture& picture, const std::string& name) {
  const Status right = given({{name.c_str(), picture.data != nullptr}});
  if (!right.ok()) return right;
  if (picture.width == 0 && picture.height == 0) {
    return read_picture(picture.data, picture.size, name);
  }
  if (picture.width < 0 || picture.height < 0) return Status::error(name + " has sizes below 0");
  const auto width = static_cast<uint64_t>(picture.width),
             height = static_cast<uint64_t>(picture.height);
  const Status fits = check_size(width, height, name);
  if (!fits.ok()) return fits;
  if (picture.size != 3 * width * height) {
    return Status::error(name + " has " + std::to_string(picture.size) + " bytes, but must have " +
                         std::to_string(3 * width * height) + ", three of each pixel");
  }
  Picture read;
  read.width = static_cast<size_t>(width);
  read.height = static_cast<size_t>(height);
  read.pixels.assign(picture.data, picture.data + picture.size);
  return read;
}

Result<Pictures> see_given(const Runner& runner, const thimble_picture* pictures, size_t count) {
  Pictures seen;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = count == 1 ? "the picture" : "picture " + std::to_string(i + 1);
    if (!runner.sight().ok()) return runner.sight().status();
    const Result<Picture> picture = read_given(pictures[i], name);
    if (!picture.ok()) return picture.status();
    const Status status = runner.see(*picture, &seen);
    if (!status.ok()) return status;
  }
  return seen;
}

}  // namespace thimble
