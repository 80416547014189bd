#include "picture/tiles.h"

#include <algorithm>
#include <utility>

#include "picture/resize.h"

namespace thimble {
namespace {

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

Tiles::Tiles(const Picture& picture, const PictureSettings& settings) : Tiles(settings) {
  if (reads_patches()) {
    cut_in_grid(picture);
  } else {
    cut_resized(picture);
  }
}

void Tiles::cut_resized(const Picture& picture) {
  const size_t side = settings_.side;
  const auto resized_to = [&](const Picture& from, Size to) {
    return resize(from, to.width, to.height, settings_.filter, settings_.reference);
  };
  if (settings_.longest_edge == 0) {
    whole_ = resized_to(picture, {side, side});
    return;
  }
  Picture resized = resized_to(picture, with_longest(picture, settings_.longest_edge));
  if (settings_.tiles) {
    const Size whole = in_tiles(resized, side);
    // A side of less than a pixel would have no tile.
    resized = resized_to(resized, {std::max(whole.width, side), std::max(whole.height, side)});
    if (resized.width > side || resized.height > side) {
      rows_ = resized.height / side;
      columns_ = resized.width / side;
    }
  }
  whole_ = resized_to(resized, {side, side});
  if (rows_ > 0) tiles_ = std::move(resized);
}

void Tiles::cut_in_grid(const Picture& picture) {
  const Size own{picture.width, picture.height}, whole = size_of_whole(own, settings_.patches);
  const Size grid = grid_of_tiles(own, settings_.side, settings_.patches);
  whole_ = resize(picture, whole.width, whole.height, settings_.filter, settings_.reference);
  if (grid.width == 0) return;
  rows_ = grid.height;
  columns_ = grid.width;
  tiles_ = resize(picture, columns_ * settings_.side, rows_ * settings_.side, settings_.filter,
                  settings_.reference);
}

std::optional<Tiles> Tiles::of_pixels(const std::vector<uint8_t>& pixels, size_t rows,
                                      size_t columns, Size whole, const PictureSettings& settings) {
  Tiles tiles(settings);
  const size_t side = settings.side, unit = tiles.reads_patches() ? settings.patches.unit() : side;
  const size_t most = tiles.reads_patches() ? settings.patches.most_rows : 1;
  const size_t across = whole.width / unit, down = whole.height / unit;
  if (across * unit != whole.width || down * unit != whole.height) return std::nullopt;
  if (across < 1 || down < 1 || across > most || across * down > most) return std::nullopt;
  const size_t whole_size = 3 * whole.width * whole.height, tile_size = 3 * side * side;
  const size_t fitting = pixels.size() / tile_size;
  if ((rows == 0) != (columns == 0) || rows > fitting || columns > fitting) return std::nullopt;
  if (pixels.size() != rows * columns * tile_size + whole_size) return std::nullopt;
  const auto end = pixels.end() - static_cast<std::ptrdiff_t>(whole_size);
  tiles.rows_ = rows;
  tiles.columns_ = columns;
  if (rows > 0) tiles.tiles_ = {columns * side, rows * side, {pixels.begin(), end}};
  tiles.whole_ = {whole.width, whole.height, {end, pixels.end()}};
  return tiles;
}

std::vector<uint8_t> Tiles::pixels() const {
  std::vector<uint8_t> pixels = tiles_.pixels;
  pixels.insert(pixels.end(), whole_.pixels.begin(), whole_.pixels.end());
  return pixels;
}

Size Tiles::size(size_t tile) const {
  return tile + 1 == count() ? whole() : Size{settings_.side, settings_.side};
}

size_t Tiles::rows_of(size_t tile) const {
  if (tile + 1 < count() || !reads_patches()) return settings_.rows;
  const size_t unit = settings_.patches.unit();
  return whole_.width / unit * (whole_.height / unit);
}

std::vector<int32_t> Tiles::shape(size_t tile) const {
  const auto [width, height] = size(tile);
  if (!reads_patches()) return {1, 3, static_cast<int32_t>(height), static_cast<int32_t>(width)};
  const PatchSettings& patches = settings_.patches;
  const size_t count = width / patches.size * (height / patches.size);
  return {1, static_cast<int32_t>(count), static_cast<int32_t>(patches.numbers())};
}

std::vector<float> Tiles::numbers(size_t tile) const {
  Normalized normalized;
  for (size_t color = 0; color < 3; ++color) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto scaled = static_cast<float>(static_cast<double>(byte) * settings_.rescale);
      normalized[color][byte] = (scaled - settings_.mean[color]) / settings_.std[color];
    }
  }
  size_t count = 1;
  for (const int32_t length : shape(tile)) count *= static_cast<size_t>(length);
  std::vector<float> numbers(count);
  const bool last = tile + 1 == this->count();
  const Picture& from = last ? whole_ : tiles_;
  const size_t side = settings_.side;
  const size_t top = last ? 0 : tile / columns_ * side, left = last ? 0 : tile % columns_ * side;
  if (reads_patches()) {
    write_patches(from, size(tile), left, top, settings_.patches, normalized, numbers.data());
    return numbers;
  }
  for (size_t y = 0; y < side; ++y) {
    const uint8_t* pixel = &from.pixels[3 * ((top + y) * from.width + left)];
    for (size_t x = 0; x < side; ++x, pixel += 3) {
      for (size_t color = 0; color < 3; ++color) {
        numbers[(color * side + y) * side + x] = normalized[color][pixel[color]];
      }
    }
  }
  return numbers;
}

}  // namespace thimble
