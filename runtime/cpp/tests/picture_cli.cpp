/// Reads a picture for tests/runtime/test_picture.py, and writes what it is asked for.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "picture/read_picture.h"
#include "picture/resize.h"
#include "picture/tiles.h"

namespace thimble {
namespace {

int fail(const std::string& message) {
  std::fputs(message.c_str(), stderr);
  return 1;
}

std::vector<uint8_t> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const void* data, size_t size) { std::fwrite(data, 1, size, stdout); }

/// Two numbers, and the pixels.
int write_pixels(const Picture& picture) {
  const uint32_t sizes[] = {static_cast<uint32_t>(picture.width),
                            static_cast<uint32_t>(picture.height)};
  write(sizes, sizeof(sizes));
  write(picture.pixels.data(), picture.pixels.size());
  return 0;
}

int write_tiles(const Picture& picture, const std::vector<uint8_t>& blob) {
  const Result<PictureSettings> settings = PictureSettings::load(blob.data(), blob.size());
  if (!settings.ok()) return fail(settings.message());
  const Tiles tiles(picture, *settings);
  const uint32_t sizes[] = {static_cast<uint32_t>(tiles.rows()),
                            static_cast<uint32_t>(tiles.columns())};
  write(sizes, sizeof(sizes));
  for (size_t tile = 0; tile < tiles.count(); ++tile) {
    const std::vector<float> numbers = tiles.numbers(tile);
    write(numbers.data(), sizeof(float) * numbers.size());
  }
  const std::string text = tiles.text();
  write(text.data(), text.size());
  return 0;
}

int run(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[1] : "";
  const bool resizes = what == "resize" && argc == 7;
  if (!resizes && !(what == "pixels" && argc == 3) && !(what == "tiles" && argc == 4)) {
    return fail(
        "usage: picture_cli pixels FILE | resize FILE WIDTH HEIGHT FILTER REFERENCE | tiles FILE "
        "BLOB\n");
  }
  const std::vector<uint8_t> bytes = read_file(argv[2]);
  const Result<Picture> picture = read_picture(bytes.data(), bytes.size(), "x");
  if (!picture.ok()) return fail(picture.message());
  if (what == "pixels") return write_pixels(*picture);
  if (what == "tiles") return write_tiles(*picture, read_file(argv[3]));
  return write_pixels(resize(
      *picture, static_cast<size_t>(std::atoi(argv[3])), static_cast<size_t>(std::atoi(argv[4])),
      static_cast<Filter>(std::atoi(argv[5])), static_cast<Reference>(std::atoi(argv[6]))));
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
