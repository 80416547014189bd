#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/status.h"
#include "picture/resize.h"

namespace thimble {

/// How a model reads pictures, and what stands for them in a text (exporter/schemas/picture.fbs).
struct PictureSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<PictureSettings> load(const uint8_t* data, size_t size);

  size_t longest_edge = 0;  ///< to which a picture is resized first, pixels
  size_t side = 0;          ///< of a tile, pixels
  bool tiles = false;       ///< whether a picture is cut into tiles
  Filter filter = Filter::kLanczos;
  double rescale = 0;
  std::array<float, 3> mean{}, std{};
  size_t rows = 0;    ///< of numbers, that a tile becomes
  int32_t token = 0;  ///< that stands for each of them
  std::string place;  ///< its text
  std::string before_tile, after_row, before_whole, before_only, after_picture;
  std::string before_question, after_question;

  /// What stands in a text for a picture of so many rows and columns of tiles; 0: the whole alone.
  std::string text(size_t rows_of_tiles, size_t columns) const;
};

}  // namespace thimble
