#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/status.h"
#include "picture/resize.h"

namespace thimble {

/// How a model reads pictures near their own sizes, as patches; several of a square become a row.
struct PatchSettings {
  size_t size = 0;                       ///< of a side, pixels; 0: a model reads no patches
  size_t square = 0;                     ///< patches of a square's side
  size_t least_rows = 0, most_rows = 0;  ///< of the whole
  double tolerance = 0;                  ///< from so many times most_rows on there are tiles
  std::vector<std::pair<size_t, size_t>> grids;  ///< columns and rows of tiles, in order
  size_t places = 0;                             ///< learned ones of a side
  double least_pixels = 0, most_pixels = 0;      ///< the bounds of rows, where no others are given
  bool by_axis = false;  ///< a patch's place is one of its column and one of its row instead
  size_t turned = 0;     ///< numbers that rotate by row and column, of a head; 0: none do
  double theta = 0;      ///< of this rotation

  size_t unit() const { return size * square; }  ///< a square's side, pixels
  /// Of a patch: pixels, places, cosines and sines.
  size_t numbers() const {
    return 3 * size * size + (by_axis ? 2 * places : places * places) + 2 * turned;
  }
};

/// How a model reads pictures, and what stands for them in a text (exporter/schemas/picture.fbs).
struct PictureSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<PictureSettings> load(const uint8_t* data, size_t size);

  /// To which a picture is resized first, pixels; 0: it is not, and not cut either.
  size_t longest_edge = 0;
  size_t side = 0;     ///< of a tile, pixels
  bool tiles = false;  ///< whether a picture is cut into tiles
  Filter filter = Filter::kLanczos;
  Reference reference = Reference::kPillow;
  double rescale = 0;
  std::array<float, 3> mean{}, std{};
  size_t rows = 0;        ///< of numbers, that a tile becomes
  int32_t token = 0;      ///< that stands for each of them
  std::string place;      ///< where a picture stands in a prompt
  std::string row_place;  ///< the text of `token`
  std::string before_picture, before_tile, after_row, before_whole, before_only, after_picture;
  std::string before_question, after_question;
  std::string before_text;     ///< before_question, where the text comes first
  std::string question_place;  ///< what stands there for each picture
  PatchSettings patches;
  /// By which of a row's positions, in time, down and across, each pair of a head rotates; further
  /// pairs as the last. Empty: by its position in the text.
  std::vector<uint8_t> axes;
  /// Whether the rows of a picture attend to those behind them, too, of the same picture.
  bool both_ways = false;
  /// The token whose numbers stand behind those of a row, where a token's row has more.
  int32_t blank = 0;

  /// What stands in a text for a picture of so many rows and columns of tiles; 0: the whole alone.
  /// \param rows_of_whole of numbers, that it becomes.
  std::string text(size_t rows_of_tiles, size_t columns, size_t rows_of_whole) const;
};

}  // namespace thimble
