#include "picture/read_picture.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "picture/exif.h"
#include "picture/formats.h"

namespace thimble {
namespace {

using Read = Result<StoredPicture> (*)(const uint8_t*, size_t, const std::string&);

/// What reads a file that begins so; null: nothing does.
Read reader_of(std::string_view file) {
  const auto begins = [file](std::string_view text) { return file.substr(0, text.size()) == text; };
  if (begins("P6") || begins("P5")) return read_ppm;
  if (begins("\x89PNG\r\n\x1a\n")) return read_png;
  if (begins("\xff\xd8\xff")) return read_jpeg;
  if (begins("RIFF") && file.substr(8, 4) == "WEBP") return read_webp;
  return nullptr;
}

}  // namespace

Result<Picture> read_picture(const uint8_t* data, size_t size, const std::string& name) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Read read = size < 12 ? nullptr : reader_of(file);
  if (read == nullptr) {
    return Status::error(name + " is not a picture that is read: it must be a PNG, JPEG, WebP or " +
                         "PPM file");
  }
  Result<StoredPicture> stored = read(data, size, name);
  if (!stored.ok()) return stored.status();
  return upright(std::move(stored->picture), stored->orientation);
}

}  // namespace thimble
