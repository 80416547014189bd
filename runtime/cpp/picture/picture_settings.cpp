#include "picture/picture_settings.h"

#include <algorithm>
#include <cmath>

#include "core/flatbuffer.h"
#include "core/settings_version.h"
#include "picture/picture.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1, kPatchVersion = 2, kTurnedVersion = 3, kBothWaysVersion = 4,
                   kNewestVersion = 5;
constexpr uint32_t kMostSide = 4096, kMostPatch = 256, kMostTurned = 1024, kMostAxes = 4096;
constexpr uint32_t kMostTiles = 64;               // side by side
constexpr size_t kMostPlaces = size_t{1} << 16;   // bytes, of the text of a tile
constexpr size_t kMostInput = size_t{1} << 24;    // pixels, of a tile or the whole
constexpr size_t kMostNumbers = size_t{1} << 26;  // that become of them

enum Field {
  kVersionField,
  kLongestEdge,
  kSide,
  kTiles,
  kFilter,
  kRescale,
  kMean,
  kStd,
  kRows,
  kToken,
  kPlace,
  kBeforeTile,
  kAfterRow,
  kBeforeWhole,
  kBeforeOnly,
  kAfterPicture,
  kBeforeQuestion,
  kAfterQuestion,
  kBeforePicture,
  kTorch,
  kPatches,
  kAxes,
  kQuestionPlace,
  kRowPlace,
  kBothWays,
  kBlank,
  kBeforeText
};

enum PatchField {
  kSize,
  kSquare,
  kLeastRows,
  kMostRows,
  kTolerance,
  kGrids,
  kPlaces,
  kPixelsAtLeast,
  kPixelsAtMost,
  kTurned,
  kTheta,
  kByAxis
};

Status damaged(const std::string& what) {
  return Status::error("the settings of pictures are damaged (" + what +
                       "): export the model again");
}

void replace(std::string* text, const std::string& what, size_t number) {
  const size_t at = text->find(what);
  if (at != std::string::npos) text->replace(at, what.size(), std::to_string(number));
}

/// Reads how patches are made; false if a number is out of range.
bool read_patches(const FlatbufferTable& table, PatchSettings* patches) {
  patches->size = table.scalar<uint32_t>(kSize);
  patches->square = table.scalar<uint32_t>(kSquare);
  patches->least_rows = table.scalar<uint32_t>(kLeastRows);
  patches->most_rows = table.scalar<uint32_t>(kMostRows);
  patches->tolerance = table.scalar<double>(kTolerance);
  patches->places = table.scalar<uint32_t>(kPlaces);
  const auto grids = table.vector<uint32_t>(kGrids);
  for (size_t i = 0; i + 1 < grids.size(); i += 2) {
    patches->grids.push_back({grids[i], grids[i + 1]});
  }
  const auto area = static_cast<double>(patches->unit() * patches->unit());
  const auto pixels = [&](PatchField field, size_t rows) {
    const auto given = table.scalar<double>(field);
    return given == 0 ? static_cast<double>(rows) * area : given;
  };
  patches->least_pixels = pixels(kPixelsAtLeast, patches->least_rows);
  patches->most_pixels = pixels(kPixelsAtMost, patches->most_rows);
  patches->turned = table.scalar<uint32_t>(kTurned);
  patches->theta = table.scalar<double>(kTheta);
  patches->by_axis = table.scalar<uint8_t>(kByAxis) != 0;
  // Where places are of an axis, there is one for each patch of the longest row of a whole.
  const size_t most_places = patches->by_axis ? patches->most_rows * patches->square : kMostPatch;
  const auto within = [](size_t number, size_t most) { return number >= 1 && number <= most; };
  return within(patches->size, kMostPatch) && within(patches->square, kMostPatch) &&
         within(patches->unit(), kMostSide) && within(patches->places, most_places) &&
         (!patches->by_axis || (patches->places == most_places && patches->grids.empty())) &&
         within(patches->most_rows, kMostSide) && patches->least_rows <= patches->most_rows &&
         patches->least_pixels >= 0 && patches->least_pixels <= patches->most_pixels &&
         patches->most_pixels < static_cast<double>(patches->most_rows + 1) * area &&
         patches->turned % 4 == 0 && patches->turned <= kMostTurned &&
         (patches->turned == 0 ||
          (patches->theta > 0 && std::isfinite(patches->theta) && patches->least_pixels >= 1)) &&
         std::all_of(
             patches->grids.begin(), patches->grids.end(),
             [&](const auto& grid) {
               return within(grid.first, kMostTiles) && within(grid.second, kMostTiles);
             });
}

/// Whether a model reads so many pixels at once.
bool can_be_read(size_t pixels, const PatchSettings& patches) {
  if (pixels > kMostInput) return false;
  return pixels / (patches.size * patches.size) <= kMostNumbers / patches.numbers();
}

/// Whether whole, tiles and all tiles of a grid are as small as memory wants.
bool are_small(const PatchSettings& patches, size_t side) {
  return can_be_read(patches.most_rows * patches.unit() * patches.unit(), patches) &&
         can_be_read(side * side, patches) &&
         std::all_of(patches.grids.begin(), patches.grids.end(), [&](const auto& grid) {
           return grid.first * grid.second <= kMostPixels / (side * side);
         });
}

}  // namespace

Result<PictureSettings> PictureSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THPI");
  if (!table.valid()) return damaged("they are something else");
  PictureSettings settings;
  const FlatbufferTable patches = table.table(kPatches);
  const auto axes = table.vector<uint8_t>(kAxes);
  settings.question_place = table.string(kQuestionPlace);
  settings.row_place = table.string(kRowPlace);
  settings.both_ways = table.scalar<uint8_t>(kBothWays) != 0;
  const auto longest = table.scalar<uint32_t>(kLongestEdge), side = table.scalar<uint32_t>(kSide);
  settings.blank = table.scalar<int32_t>(kBlank);
  const bool is_newest =
      (patches.valid() && patches.scalar<uint8_t>(kByAxis) != 0) || settings.blank != 0;
  const bool is_of_rows = !settings.row_place.empty() || settings.both_ways;
  const bool is_turned = (patches.valid() && patches.scalar<uint32_t>(kTurned) > 0) ||
                         axes.size() > 0 || !settings.question_place.empty();
  const uint32_t newest = is_newest         ? kNewestVersion
                          : is_of_rows      ? kBothWaysVersion
                          : is_turned       ? kTurnedVersion
                          : patches.valid() ? kPatchVersion
                                            : kVersion;
  const Status version =
      check_settings_version("pictures", table.scalar<uint32_t>(kVersionField), newest);
  if (!version.ok()) return version;
  if (patches.valid() && !read_patches(patches, &settings.patches)) return damaged("its patches");
  settings.tiles = table.scalar<uint8_t>(kTiles) != 0;
  if ((longest < 1 && !patches.valid() && (settings.tiles || !is_of_rows)) || longest > kMostSide ||
      side < 1 || side > kMostSide || longest > uint64_t{kMostTiles} * side) {
    return damaged("a tile of " + std::to_string(side) + " pixels");
  }
  if (patches.valid() && side % settings.patches.unit() != 0) return damaged("a tile's patches");
  if (patches.valid() && !are_small(settings.patches, side)) return damaged("too large pictures");
  const auto filter = table.scalar<uint8_t>(kFilter);
  if (filter < 1 || filter > 3) return damaged("filter " + std::to_string(filter));
  const auto mean = table.vector<float>(kMean), std = table.vector<float>(kStd);
  if (mean.size() != settings.mean.size() || std.size() != settings.std.size()) {
    return damaged(std::to_string(mean.size()) + " means");
  }
  for (size_t color = 0; color < mean.size(); ++color) {
    settings.mean[color] = mean[color];
    settings.std[color] = std[color];
  }
  settings.longest_edge = longest;
  settings.side = side;
  settings.filter = static_cast<Filter>(filter);
  settings.reference = table.scalar<uint8_t>(kTorch) ? Reference::kTorch : Reference::kPillow;
  settings.rescale = table.scalar<double>(kRescale);
  settings.rows = table.scalar<uint32_t>(kRows);
  settings.token = table.scalar<int32_t>(kToken);
  std::string* const texts[] = {&settings.place,           &settings.before_tile,
                                &settings.after_row,       &settings.before_whole,
                                &settings.before_only,     &settings.after_picture,
                                &settings.before_question, &settings.after_question};
  size_t field = kPlace;
  for (std::string* text : texts) *text = table.string(field++);
  for (size_t pair = 0; pair < axes.size(); ++pair) {
    if (axes[pair] > 2 || axes.size() > kMostAxes || !patches.valid()) return damaged("its axes");
    settings.axes.push_back(axes[pair]);
  }
  settings.before_picture = table.string(kBeforePicture);
  if (settings.question_place.empty()) settings.question_place = settings.place;
  settings.before_text = table.string(kBeforeText);
  if (settings.before_text.empty()) settings.before_text = settings.before_question;
  if (settings.rows < 1 || settings.place.empty()) return damaged("no place for a picture");
  if (settings.row_place.empty()) settings.row_place = settings.place;
  if (settings.rows > kMostPlaces / settings.row_place.size()) {
    return damaged(std::to_string(settings.rows) + " places for a picture");
  }
  return settings;
}

std::string PictureSettings::text(size_t rows_of_tiles, size_t columns,
                                  size_t rows_of_whole) const {
  std::string text = before_picture;
  const auto add_places = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) text += row_place;
  };
  for (size_t row = 1; row <= rows_of_tiles; ++row) {
    for (size_t column = 1; column <= columns; ++column) {
      std::string before = before_tile;
      replace(&before, "{row}", row);
      replace(&before, "{column}", column);
      text += before;
      add_places(rows);
    }
    text += after_row;
  }
  text += rows_of_tiles > 0 ? before_whole : before_only;
  add_places(rows_of_whole);
  return text + after_picture;
}

}  // namespace thimble
