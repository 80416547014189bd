#include "picture/tiles.h"

#include <algorithm>
#include <utility>

#include "picture/resize.h"

namespace thimble {
namespace {

struct Size {
  size_t width, height;
};

/// The shorter side of a picture whose longer one becomes `longest`, rounded down.
size_t shorter(size_t longest, double longer_by_shorter) {
  return static_cast<size_t>(static_cast<double>(longest) / longer_by_shorter);
}

/// The other side is even, as the reference makes it. Quotients are rounded as they are there.
Size with_longest(const Picture& picture, size_t longest) {
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  const bool wide = picture.width >= picture.height;
  size_t other =
      wide ? shorter(longest, ratio) : static_cast<size_t>(static_cast<double>(longest) * ratio);
  other = std::max<size_t>(other + other % 2, 1);
  return wide ? Size{longest, other} : Size{other, longest};
}

size_t up_to(size_t size, size_t side) { return (size + side - 1) / side * side; }

Size in_tiles(const Picture& picture, size_t side) {
  const double ratio = static_cast<double>(picture.width) / static_cast<double>(picture.height);
  if (picture.width >= picture.height) {
    const size_t width = up_to(picture.width, side);
    return {width, up_to(shorter(width, ratio), side)};
  }
  const size_t height = up_to(picture.height, side);
  const auto width = static_cast<size_t>(static_cast<double>(height) * ratio);
  return {up_to(width, side), height};
}

}  // namespace

Tiles::Tiles(const PictureSettings& settings) : side_(settings.side) {
  for (size_t color = 0; color < 3; ++color) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto scaled = static_cast<float>(static_cast<double>(byte) * settings.rescale);
      normalized_[color][byte] = (scaled - settings.mean[color]) / settings.std[color];
    }
  }
}

Tiles::Tiles(const Picture& picture, const PictureSettings& settings) : Tiles(settings) {
  const Size size = with_longest(picture, settings.longest_edge);
  Picture resized = resize(picture, size.width, size.height, settings.filter);
  if (settings.tiles) {
    const Size whole = in_tiles(resized, side_);
    // A side of less than a pixel would have no tile.
    resized = resize(resized, std::max(whole.width, side_), std::max(whole.height, side_),
                     settings.filter);
    if (resized.width > side_ || resized.height > side_) {
      rows_ = resized.height / side_;
      columns_ = resized.width / side_;
    }
  }
  whole_ = resize(resized, side_, side_, settings.filter);
  if (rows_ > 0) tiles_ = std::move(resized);
}

std::optional<Tiles> Tiles::of_pixels(const std::vector<uint8_t>& pixels, size_t rows,
                                      size_t columns, const PictureSettings& settings) {
  Tiles tiles(settings);
  const size_t side = settings.side, whole = 3 * side * side, most = pixels.size() / whole;
  const bool has_tiles = rows > 0 && columns > 0;
  if ((rows == 0) != (columns == 0) || rows > most || columns > most) return std::nullopt;
  if (pixels.size() != (rows * columns + 1) * whole) return std::nullopt;
  const auto end = pixels.end() - static_cast<std::ptrdiff_t>(whole);
  tiles.rows_ = rows;
  tiles.columns_ = columns;
  if (has_tiles) tiles.tiles_ = {columns * side, rows * side, {pixels.begin(), end}};
  tiles.whole_ = {side, side, {end, pixels.end()}};
  return tiles;
}

std::vector<uint8_t> Tiles::pixels() const {
  std::vector<uint8_t> pixels = tiles_.pixels;
  pixels.insert(pixels.end(), whole_.pixels.begin(), whole_.pixels.end());
  return pixels;
}

void Tiles::write(size_t tile, float* numbers) const {
  const bool last = tile + 1 == count();
  const Picture& from = last ? whole_ : tiles_;
  const size_t top = last ? 0 : tile / columns_ * side_, left = last ? 0 : tile % columns_ * side_;
  for (size_t y = 0; y < side_; ++y) {
    const uint8_t* pixel = &from.pixels[3 * ((top + y) * from.width + left)];
    for (size_t x = 0; x < side_; ++x, pixel += 3) {
      for (size_t color = 0; color < 3; ++color) {
        numbers[(color * side_ + y) * side_ + x] = normalized_[color][pixel[color]];
      }
    }
  }
}

}  // namespace thimble
