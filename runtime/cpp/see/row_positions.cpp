#include "see/row_positions.h"

#include <algorithm>
#include <cstddef>

namespace thimble {
namespace {

/// Those of a row in time, down and across.
struct Place {
  int64_t time, down, across;
};

/// The places of all rows of a text whose pictures are given.
std::vector<Place> places_of(const std::vector<int32_t>& text, const Pictures& pictures,
                             const PatchSettings& patches) {
  std::vector<Place> places;
  places.reserve(text.size());
  int64_t next = 0;
  for (size_t at = 0; at < text.size();) {
    if (!is_row(text[at])) {
      places.push_back({next, next, next});
      ++next;
      ++at;
      continue;
    }
    const SeenPicture& picture = **std::find_if(
        pictures.begin(), pictures.end(), [&](const auto& one) { return one->has(text[at]); });
    const auto across = static_cast<int64_t>(picture.tiles.whole().width / patches.unit());
    const auto down = static_cast<int64_t>(picture.tiles.whole().height / patches.unit());
    for (; at < text.size() && picture.has(text[at]); ++at) {
      const int64_t row = picture.first - text[at];
      places.push_back({next, next + row / across, next + row % across});
      if (row + 1 == across * down) {
        ++at;
        break;
      }
    }
    next += std::max(across, down);
  }
  return places;
}

/// One behind the position of the last row of each row's own picture, or behind its own; empty: no
/// row is a picture's.
std::vector<int64_t> ends_of(const std::vector<int64_t>& rows, size_t start) {
  std::vector<int64_t> ends;
  if (std::none_of(rows.begin(), rows.end(), is_row)) return ends;
  for (size_t at = 0; at < rows.size();) {
    const size_t end = picture_end(rows, at);
    ends.insert(ends.end(), end - at, static_cast<int64_t>(start + end));
    at = end;
  }
  return ends;
}

}  // namespace

Result<RowPositions> positions_behind(const Sight& sight, const std::vector<int32_t>& text,
                                      const std::vector<int64_t>& rows) {
  const std::vector<uint8_t>& axes = sight.settings().axes;
  if (sight.settings().both_ways) return RowPositions{{}, 1, ends_of(rows, text.size())};
  const bool sees = std::any_of(rows.begin(), rows.end(), is_row);
  if (axes.empty() || (!sees && std::none_of(text.begin(), text.end(), is_row))) {
    return RowPositions{};
  }
  std::vector<int32_t> whole = text;
  whole.insert(whole.end(), rows.begin(), rows.end());
  const Result<Pictures> pictures = sight.hold(whole);
  if (!pictures.ok()) return pictures.status();
  const std::vector<Place> places = places_of(whole, *pictures, sight.settings().patches);
  RowPositions positions;
  if (sees) positions.pairs = static_cast<int64_t>(axes.size());
  for (size_t at = text.size(); at < places.size(); ++at) {
    const auto [time, down, across] = places[at];
    for (int64_t pair = 0; pair < positions.pairs; ++pair) {
      const uint8_t axis = sees ? axes[static_cast<size_t>(pair)] : 0;
      positions.numbers.push_back(axis == 0 ? time : axis == 1 ? down : across);
    }
  }
  return positions;
}

}  // namespace thimble
