#include <cctype>
#include <cmath>

#include "picture/formats.h"

namespace thimble {
namespace {

constexpr uint64_t kMostNumber = 1'000'000'000;

/// Reads the header's numbers, between which are spaces and comments.
class Header {
 public:
  Header(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  /// The next number; 0 if there is none.
  uint64_t number() {
    while (at_ < size_ && (std::isspace(data_[at_]) != 0 || data_[at_] == '#')) {
      if (data_[at_] == '#') {
        while (at_ < size_ && data_[at_] != '\n') ++at_;
      } else {
        ++at_;
      }
    }
    uint64_t value = 0;
    while (at_ < size_ && std::isdigit(data_[at_]) != 0 && value < kMostNumber) {
      value = 10 * value + (data_[at_++] - '0');
    }
    return value;
  }
  /// Where the pixels begin: one space behind the last number.
  size_t end() const { return at_ + 1; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 2;  // behind the two letters that say what it is
};

}  // namespace

Result<StoredPicture> read_ppm(const uint8_t* data, size_t size, const std::string& name) {
  Header header(data, size);
  const uint64_t width = header.number(), height = header.number(), most = header.number();
  const Status fits = check_size(width, height, name);
  if (!fits.ok()) return fits;
  if (most < 1 || most > 65535) {
    return Status::error(name + " is a damaged PPM file: its largest number is " +
                         std::to_string(most) + ", but must be 1 to 65535");
  }
  const size_t channels = data[1] == '6' ? 3 : 1, bytes = most > 255 ? 2 : 1;
  const size_t count = static_cast<size_t>(width * height);
  if (header.end() > size || size - header.end() < count * channels * bytes) {
    return Status::error(name + " is cut off: it lacks pixels: write it again");
  }
  StoredPicture stored;
  stored.picture.width = static_cast<size_t>(width);
  stored.picture.height = static_cast<size_t>(height);
  stored.picture.pixels.resize(3 * count);
  const uint8_t* in = data + header.end();
  for (size_t i = 0; i < 3 * count; ++i) {
    const size_t sample = channels == 3 ? i : i / 3;
    uint64_t value = in[sample * bytes];
    if (bytes == 2) value = 256 * value + in[2 * sample + 1];
    // Half to even, as Pillow rounds.
    const double share = static_cast<double>(value) / static_cast<double>(most);
    stored.picture.pixels[i] =
        static_cast<uint8_t>(value >= most ? 255 : std::nearbyint(255 * share));
  }
  return stored;
}

}  // namespace thimble
