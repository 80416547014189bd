#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <vector>

#include "picture/color.h"
#include "picture/exif.h"
#include "picture/formats.h"

namespace thimble {
namespace {

/// What libpng reads from and says.
struct Source {
  const uint8_t* data;
  size_t size;
  size_t at = 0;
  bool cut = false;
  char error[128] = {};
};

void read_bytes(png_structp png, png_bytep out, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->size - source->at < count) {
    source->cut = true;
    png_error(png, "cut off");
  }
  std::memcpy(out, source->data + source->at, count);
  source->at += count;
}

[[noreturn]] void fail(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->error, message, sizeof(source->error) - 1);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

/// An open file. Between its calls into libpng, which jump out of where they fail, nothing is made
/// that a jump would lose.
class Png {
 public:
  Png(const uint8_t* data, size_t size) : source_{data, size} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, fail, ignore);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~Png() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  /// Reads up to the pixels, and asks for four bytes of each.
  bool read_header() {
    if (info_ == nullptr || setjmp(png_jmpbuf(png_)) != 0) return false;
    // Sizes are limited by us, with our sentence.
    png_set_user_limits(png_, 0x7fffffff, 0x7fffffff);
    png_set_read_fn(png_, &source_, read_bytes);
    png_set_crc_action(png_, PNG_CRC_DEFAULT, PNG_CRC_WARN_DISCARD);
    png_read_info(png_, info_);
    png_set_strip_16(png_);  // to the high byte
    png_set_expand(png_);
    png_set_gray_to_rgb(png_);
    png_set_add_alpha(png_, 0xff, PNG_FILLER_AFTER);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  bool read_row(uint8_t* row) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_row(png_, row, nullptr);
    return true;
  }
  bool read_end() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_end(png_, info_);
    return true;
  }

  uint64_t width() const { return png_get_image_width(png_, info_); }
  uint64_t height() const { return png_get_image_height(png_, info_); }
  int passes() const { return passes_; }
  int orientation() const {
    png_bytep exif = nullptr;
    png_uint_32 size = 0;
    if (png_get_eXIf_1(png_, info_, &size, &exif) == 0 || exif == nullptr) return 1;
    return exif_orientation(exif, size);
  }
  Status error(const std::string& name) const {
    if (source_.cut) return Status::error(name + " is cut off: write it again");
    return Status::error(name + " is a damaged PNG file (" + source_.error + "): write it again");
  }

 private:
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

/// Whether a chunk before the pixels says so, which libpng passes over. A chunk is a size, a name,
/// as many bytes, and their checksum.
bool is_animation(const uint8_t* data, size_t size) {
  constexpr size_t kSignature = 8, kAround = 12;
  for (size_t at = kSignature; size >= kAround && at <= size - kAround;) {
    const uint8_t* chunk = data + at;
    if (std::memcmp(chunk + 4, "acTL", 4) == 0) return true;
    if (std::memcmp(chunk + 4, "IDAT", 4) == 0) return false;
    const size_t length =
        size_t{chunk[0]} << 24 | size_t{chunk[1]} << 16 | size_t{chunk[2]} << 8 | size_t{chunk[3]};
    if (length > size - kAround - at) return false;
    at += kAround + length;
  }
  return false;
}

/// Puts pixels with alpha on white.
void put(const uint8_t* row, size_t width, uint8_t* out) {
  for (size_t x = 0; x < width; ++x, row += 4) {
    for (size_t color = 0; color < 3; ++color) *out++ = over_white(row[color], row[3]);
  }
}

}  // namespace

Result<StoredPicture> read_png(const uint8_t* data, size_t size, const std::string& name) {
  if (is_animation(data, size)) {
    return Status::error(name + " is an animation: save one of its pictures");
  }
  Png png(data, size);
  if (!png.read_header()) return png.error(name);
  const Status fits = check_size(png.width(), png.height(), name);
  if (!fits.ok()) return fits;
  const auto width = static_cast<size_t>(png.width()), height = static_cast<size_t>(png.height());
  StoredPicture stored;
  Picture& picture = stored.picture;
  picture.width = width;
  picture.height = height;
  picture.pixels.resize(3 * width * height);
  const int passes = png.passes();
  // Of an interlaced picture, each pass adds pixels to the rows of those before.
  std::vector<uint8_t> rows(4 * width * (passes > 1 ? height : 1));
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t y = 0; y < height; ++y) {
      uint8_t* row = rows.data() + (passes > 1 ? 4 * width * y : 0);
      if (!png.read_row(row)) return png.error(name);
      if (pass == passes - 1) put(row, width, &picture.pixels[3 * width * y]);
    }
  }
  if (!png.read_end()) return png.error(name);
  stored.orientation = png.orientation();
  return stored;
}

}  // namespace thimble
