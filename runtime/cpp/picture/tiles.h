#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "picture/picture.h"
#include "picture/picture_settings.h"

namespace thimble {

/// A picture as a model reads it: square tiles, row by row, and last the whole in one of that size,
/// as the image processors of SmolVLM and Idefics3 in transformers make them.
class Tiles {
 public:
  Tiles(const Picture& picture, const PictureSettings& settings);

  /// Those whose pixels() are given; nothing if they are of another size.
  static std::optional<Tiles> of_pixels(const std::vector<uint8_t>& pixels, size_t rows,
                                        size_t columns, const PictureSettings& settings);

  /// The tiles side by side, and then the whole: [height][width][3] of both.
  std::vector<uint8_t> pixels() const;

  /// Of tiles, but for the whole; 0: the whole is all.
  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }
  /// Of tiles, with the whole.
  size_t count() const { return rows_ * columns_ + 1; }
  size_t side() const { return side_; }
  /// Of memory.
  size_t bytes() const { return tiles_.pixels.size() + whole_.pixels.size(); }

  /// Whether a model reads the same.
  bool operator==(const Tiles& other) const {
    return rows_ == other.rows_ && columns_ == other.columns_ &&
           tiles_.pixels == other.tiles_.pixels && whole_.pixels == other.whole_.pixels;
  }

  /// Writes a tile as normalized numbers.
  /// \param numbers [3][side()][side()], red, green and blue apart.
  void write(size_t tile, float* numbers) const;

 private:
  explicit Tiles(const PictureSettings& settings);

  size_t side_, rows_ = 0, columns_ = 0;
  Picture tiles_;  ///< side by side; empty if there are none
  Picture whole_;
  std::array<std::array<float, 256>, 3> normalized_;  ///< of each byte of each color
};

}  // namespace thimble
