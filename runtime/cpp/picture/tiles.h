#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "picture/patches.h"
#include "picture/picture.h"
#include "picture/picture_settings.h"

namespace thimble {

/// A picture as a model reads it: square tiles, row by row, and last the whole, as the image
/// processors in transformers make them. For SmolVLM and Idefics3 the whole has a tile's size; for
/// LFM2-VL it is near the picture's own.
class Tiles {
 public:
  Tiles(const Picture& picture, const PictureSettings& settings);

  /// Those whose pixels() are given; nothing if they are of another size.
  static std::optional<Tiles> of_pixels(const std::vector<uint8_t>& pixels, size_t rows,
                                        size_t columns, Size whole,
                                        const PictureSettings& settings);

  /// The tiles side by side, and then the whole: [height][width][3] of both.
  std::vector<uint8_t> pixels() const;
  Size whole() const { return {whole_.width, whole_.height}; }

  /// Of tiles, but for the whole; 0: the whole is all.
  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  /// Of tiles, with the whole.
  size_t count() const { return rows_ * columns_ + 1; }
  /// Of memory.
  size_t bytes() const { return tiles_.pixels.size() + whole_.pixels.size(); }

  /// Rows of numbers that a model makes: of a tile, of the whole, and of all.
  size_t rows_of(size_t tile) const;
  size_t rows_of_all() const { return first_row(count() - 1) + rows_of(count() - 1); }
  size_t first_row(size_t tile) const { return tile * settings_.rows; }
  /// The tile that becomes a row.
  size_t tile_of(size_t row) const { return std::min(row / settings_.rows, count() - 1); }
  /// What stands for it in a text.
  std::string text() const { return settings_.text(rows_, columns_, rows_of(count() - 1)); }

  /// Whether a model reads the same.
  bool operator==(const Tiles& other) const {
    return rows_ == other.rows_ && columns_ == other.columns_ &&
           whole_.width == other.whole_.width && tiles_.pixels == other.tiles_.pixels &&
           whole_.pixels == other.whole_.pixels;
  }

  /// The shape of a model's input for a tile: [1][3][side][side], or [1][patches][numbers].
  std::vector<int32_t> shape(size_t tile) const;
  /// This input: normalized pixels, red, green and blue apart, or what write_patches() writes.
  std::vector<float> numbers(size_t tile) const;

 private:
  explicit Tiles(const PictureSettings& settings) : settings_(settings) {}
  void cut_resized(const Picture& picture);
  void cut_in_grid(const Picture& picture);
  bool reads_patches() const { return settings_.patches.size > 0; }
  Size size(size_t tile) const;

  PictureSettings settings_;
  size_t rows_ = 0, columns_ = 0;
  Picture tiles_;  ///< side by side; empty if there are none
  Picture whole_;
};

}  // namespace thimble
