#include "picture/exif.h"

#include <cstring>
#include <utility>

namespace thimble {
namespace {

constexpr uint16_t kOrientation = 0x0112;
constexpr size_t kEntry = 12;  // bytes

class Tiff {
 public:
  Tiff(const uint8_t* data, size_t size) : data_(data), size_(size), big_(data[0] == 'M') {}

  uint32_t number(size_t at, size_t bytes) const {
    if (at > size_ || size_ - at < bytes) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      const size_t place = big_ ? bytes - 1 - i : i;
      value |= static_cast<uint32_t>(data_[at + i]) << (8 * place);
    }
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  bool big_;
};

}  // namespace

int exif_orientation(const uint8_t* data, size_t size) {
  constexpr char kPrefix[] = "Exif\0";  // with its own zero: six bytes
  if (size >= sizeof(kPrefix) && std::memcmp(data, kPrefix, sizeof(kPrefix)) == 0) {
    data += sizeof(kPrefix);
    size -= sizeof(kPrefix);
  }
  if (size < 8 || (std::memcmp(data, "II", 2) != 0 && std::memcmp(data, "MM", 2) != 0)) return 1;
  const Tiff tiff(data, size);
  const size_t first = tiff.number(4, 4), count = tiff.number(first, 2);
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = first + 2 + kEntry * i;
    if (tiff.number(entry, 2) != kOrientation) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture upright(Picture picture, int orientation) {
  if (orientation <= 1 || orientation > 8) return picture;
  const size_t width = picture.width, height = picture.height;
  const bool sideways = orientation >= 5;  // its rows are columns
  Picture turned;
  turned.width = sideways ? height : width;
  turned.height = sideways ? width : height;
  turned.pixels.resize(picture.pixels.size());
  // What is at the end of a stored row, or of the stored rows, when it is upright at the start.
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  uint8_t* out = turned.pixels.data();
  for (size_t y = 0; y < turned.height; ++y) {
    for (size_t x = 0; x < turned.width; ++x, out += 3) {
      const size_t along = sideways ? y : x, across = sideways ? x : y;
      const size_t column = from_right ? width - 1 - along : along;
      const size_t row = from_bottom ? height - 1 - across : across;
      std::memcpy(out, &picture.pixels[3 * (row * width + column)], 3);
    }
  }
  return turned;
}

}  // namespace thimble
