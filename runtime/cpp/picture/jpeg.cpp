#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

// jpeglib.h uses size_t and FILE of the headers before it.
#include <jerror.h>
#include <jpeglib.h>

#include "picture/color.h"
#include "picture/exif.h"
#include "picture/formats.h"

namespace thimble {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;

/// What libjpeg calls where it fails.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  bool cut;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void fail(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->text);
  std::longjmp(errors->jump, 1);
}

/// Other warnings are of pixels that are there all the same.
void note(j_common_ptr jpeg, int level) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  if (level < 0 && errors->base.msg_code == JWRN_JPEG_EOF) {
    errors->cut = true;
    fail(jpeg);
  }
}

/// An open file. Between its calls into libjpeg, which jump out of where they fail, nothing is made
/// that a jump would lose.
class Jpeg {
 public:
  Jpeg() {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = fail;
    errors_.base.emit_message = note;
    errors_.cut = false;
    errors_.text[0] = '\0';
  }
  ~Jpeg() { jpeg_destroy_decompress(&jpeg_); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  bool read_header(const uint8_t* data, size_t size) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, const_cast<uint8_t*>(data), size);
    jpeg_save_markers(&jpeg_, kExifMarker, 0xffff);
    jpeg_read_header(&jpeg_, TRUE);
    const bool inks = jpeg_.num_components == 4;
    jpeg_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    return true;
  }
  bool start() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    return true;
  }
  bool read_row(uint8_t* row) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_read_scanlines(&jpeg_, &row, 1);
    return true;
  }

  size_t width() const { return jpeg_.image_width; }
  size_t height() const { return jpeg_.image_height; }
  /// Bytes of a pixel: red, green and blue, or inks.
  size_t channels() const { return static_cast<size_t>(jpeg_.output_components); }
  int orientation() const {
    for (jpeg_saved_marker_ptr one = jpeg_.marker_list; one != nullptr; one = one->next) {
      if (one->marker != kExifMarker || one->data_length < 6) continue;
      if (std::memcmp(one->data, "Exif\0", 6) == 0) {
        return exif_orientation(one->data, one->data_length);
      }
    }
    return 1;
  }
  Status error(const std::string& name) const {
    if (errors_.cut) return Status::error(name + " is cut off: write it again");
    return Status::error(name + " is a damaged JPEG file (" + errors_.text + "): write it again");
  }

 private:
  jpeg_decompress_struct jpeg_{};
  Errors errors_{};
};

}  // namespace

Result<StoredPicture> read_jpeg(const uint8_t* data, size_t size, const std::string& name) {
  Jpeg jpeg;
  if (!jpeg.read_header(data, size)) return jpeg.error(name);
  const Status fits = check_size(jpeg.width(), jpeg.height(), name);
  if (!fits.ok()) return fits;
  if (!jpeg.start()) return jpeg.error(name);
  StoredPicture stored;
  Picture& picture = stored.picture;
  picture.width = jpeg.width();
  picture.height = jpeg.height();
  picture.pixels.resize(3 * picture.width * picture.height);
  const bool inks = jpeg.channels() == 4;
  std::vector<uint8_t> row(inks ? 4 * picture.width : 0);
  for (size_t y = 0; y < picture.height; ++y) {
    uint8_t* out = &picture.pixels[3 * picture.width * y];
    if (!jpeg.read_row(inks ? row.data() : out)) return jpeg.error(name);
    for (size_t x = 0; inks && x < picture.width; ++x) {
      const uint8_t* ink = &row[4 * x];  // inverted, as Adobe's programs write it
      for (size_t color = 0; color < 3; ++color) {
        *out++ = without_ink(255u - ink[color], 255u - ink[3]);
      }
    }
  }
  stored.orientation = jpeg.orientation();
  return stored;
}

}  // namespace thimble
