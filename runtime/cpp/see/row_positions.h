#pragma once

#include <cstdint>
#include <vector>

#include "see/sight.h"

namespace thimble {

/// What the last rows of a text are rotated by, where pictures take fewer positions than rows.
struct RowPositions {
  std::vector<int64_t> numbers;  ///< of each row `pairs`; empty: those in the cache
  int64_t pairs = 1;

  bool empty() const { return numbers.empty(); }
  /// Gives them to a segment of these rows, which must not outlive them.
  void give(thimble_segment* segment) const {
    if (empty()) return;
    segment->positions = numbers.data();
    segment->pairs = pairs;
  }
};

/// The positions of rows behind a text, as Qwen's models count them: a picture of `down` times
/// `across` rows takes as many positions as its longer side has. Its rows have three: that in time
/// is the first of them all, and those down and across count from there. Fails if a picture is not
/// known any more.
Result<RowPositions> positions_behind(const Sight& sight, const std::vector<int32_t>& text,
                                      const std::vector<int64_t>& rows);

}  // namespace thimble
