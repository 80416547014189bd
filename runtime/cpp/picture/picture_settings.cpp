#include "picture/picture_settings.h"

#include "core/flatbuffer.h"
#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostSide = 4096;
constexpr uint32_t kMostTiles = 64;              // side by side
constexpr size_t kMostPlaces = size_t{1} << 16;  // bytes, of the text of a tile

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
  kAfterQuestion
};

Status damaged(const std::string& what) {
  return Status::error("the settings of pictures are damaged (" + what +
                       "): export the model again");
}

void replace(std::string* text, const std::string& what, size_t number) {
  const size_t at = text->find(what);
  if (at != std::string::npos) text->replace(at, what.size(), std::to_string(number));
}

}  // namespace

Result<PictureSettings> PictureSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THPI");
  if (!table.valid()) return damaged("they are something else");
  const Status version =
      check_settings_version("pictures", table.scalar<uint32_t>(kVersionField), kVersion);
  if (!version.ok()) return version;
  const auto longest = table.scalar<uint32_t>(kLongestEdge), side = table.scalar<uint32_t>(kSide);
  if (longest < 1 || longest > kMostSide || side < 1 || side > kMostSide ||
      longest > uint64_t{kMostTiles} * side) {
    return damaged("a tile of " + std::to_string(side) + " pixels");
  }
  const auto filter = table.scalar<uint8_t>(kFilter);
  if (filter < 1 || filter > 3) return damaged("filter " + std::to_string(filter));
  const auto mean = table.vector<float>(kMean), std = table.vector<float>(kStd);
  PictureSettings settings;
  if (mean.size() != settings.mean.size() || std.size() != settings.std.size()) {
    return damaged(std::to_string(mean.size()) + " means");
  }
  for (size_t color = 0; color < mean.size(); ++color) {
    settings.mean[color] = mean[color];
    settings.std[color] = std[color];
  }
  settings.longest_edge = longest;
  settings.side = side;
  settings.tiles = table.scalar<uint8_t>(kTiles) != 0;
  settings.filter = static_cast<Filter>(filter);
  settings.rescale = table.scalar<double>(kRescale);
  settings.rows = table.scalar<uint32_t>(kRows);
  settings.token = table.scalar<int32_t>(kToken);
  std::string* const texts[] = {&settings.place,           &settings.before_tile,
                                &settings.after_row,       &settings.before_whole,
                                &settings.before_only,     &settings.after_picture,
                                &settings.before_question, &settings.after_question};
  size_t field = kPlace;
  for (std::string* text : texts) *text = table.string(field++);
  if (settings.rows < 1 || settings.place.empty()) return damaged("no place for a picture");
  if (settings.rows > kMostPlaces / settings.place.size()) {
    return damaged(std::to_string(settings.rows) + " places for a picture");
  }
  return settings;
}

std::string PictureSettings::text(size_t rows_of_tiles, size_t columns) const {
  std::string places, text;
  for (size_t row = 0; row < rows; ++row) places += place;
  for (size_t row = 1; row <= rows_of_tiles; ++row) {
    for (size_t column = 1; column <= columns; ++column) {
      std::string before = before_tile;
      replace(&before, "{row}", row);
      replace(&before, "{column}", column);
      text += before + places;
    }
    text += after_row;
  }
  return text + (rows_of_tiles > 0 ? before_whole : before_only) + places + after_picture;
}

}  // namespace thimble
