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

/// What a file is that begins so, of kinds that may be taken for a picture; "": nothing that is
/// known.
std::string_view other_kind(std::string_view file) {
  struct Kind {
    size_t at;
    std::string_view text;
    std::string_view name;
  };
  constexpr Kind kKinds[] = {
      {0, "GIF8", "GIF"},       {0, {"II*\0", 4}, "TIFF"}, {0, {"MM\0*", 4}, "TIFF"},
      {4, "ftyphei", "HEIC"},   {4, "ftyphev", "HEIC"},    {4, "ftypmif1", "HEIC"},
      {4, "ftypavi", "AVIF"},   {4, "JXL ", "JPEG XL"},    {0, "\xff\x0a", "JPEG XL"},
      {4, "jP  ", "JPEG 2000"}, {0, "<svg", "SVG"},        {0, "%PDF", "PDF"},
  };
  for (const Kind& kind : kKinds) {
    if (file.substr(kind.at, kind.text.size()) == kind.text) return kind.name;
  }
  const bool is_bmp = file.substr(0, 2) == "BM" && file.substr(6, 4) == std::string(4, '\0');
  return is_bmp ? "BMP" : "";
}

}  // namespace

Result<Picture> read_picture(const uint8_t* data, size_t size, const std::string& name) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Read read = size < 12 ? nullptr : reader_of(file);
  const std::string_view kind = read != nullptr || size < 12 ? "" : other_kind(file);
  if (!kind.empty()) {
    return Status::error(name + " has the format " + std::string(kind) +
                         ", which is not read: save it as PNG or JPEG");
  }
  if (read == nullptr) {
    return Status::error(name + " is not a picture that is read: it must be a PNG, JPEG, WebP or " +
                         "PPM file");
  }
  Result<StoredPicture> stored = read(data, size, name);
  if (!stored.ok()) return stored.status();
  return upright(std::move(stored->picture), stored->orientation);
}

}  // namespace thimble
