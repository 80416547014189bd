#include "c_interface/given_pictures.h"

#include <cstdint>
#include <string>
#include <utility>

#include "picture/read_picture.h"

namespace thimble {

Result<Picture> read_given(const thimble_picture& given, const std::string& name) {
  if (given.data == nullptr) return Status::error(name + " is null, but must not be");
  if (given.width == 0 && given.height == 0) {
    return read_picture(given.data, given.size, name);
  }
  if (given.width < 0 || given.height < 0) return Status::error(name + " has sizes below 0");
  const auto width = static_cast<uint64_t>(given.width),
             height = static_cast<uint64_t>(given.height);
  const Status fits = check_size(width, height, name);
  if (!fits.ok()) return fits;
  if (given.size != 3 * width * height) {
    return Status::error(name + " has " + std::to_string(given.size) + " bytes, but must have " +
                         std::to_string(3 * width * height) + ", three of each pixel");
  }
  Picture picture;
  picture.width = static_cast<size_t>(width);
  picture.height = static_cast<size_t>(height);
  picture.pixels.assign(given.data, given.data + given.size);
  return picture;
}

Result<Pictures> see_given(const Runner& runner, const thimble_picture* pictures, size_t count) {
  Pictures seen;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = count == 1 ? "the picture" : "picture " + std::to_string(i + 1);
    Status status = runner.sight().status();
    if (!status.ok()) return status;
    const Result<Picture> picture = read_given(pictures[i], name);
    if (!picture.ok()) return picture.status();
    status = runner.see(*picture, &seen);
    if (!status.ok()) return status;
  }
  return seen;
}

}  // namespace thimble
