#pragma once

#include <cstdint>
#include <vector>

#include "see/sight.h"

namespace thimble {

/// What the last rows of a text are rotated by, where pictures take fewer positions than rows, and
/// what they attend to, where rows of a picture attend to those behind them.
struct RowPositions {
  std::vector<int64_t> numbers;  ///< of each row `pairs`; empty: those in the cache
  int64_t pairs = 1;
  std::vector<int64_t> ends;  ///< of each row; empty: each attends to none behind it

  bool empty() const { return numbers.empty() && ends.empty(); }
  /// Gives them to a segment of these rows, which must not outlive them.
  void give(thimble_segment* segment) const {
    if (!numbers.empty()) {
      segment->positions = numbers.data();
      segment->pairs = pairs;
    }
    if (!ends.empty()) segment->ends = ends.data();
  }
};

/// The positions of rows behind a text. As Qwen's models count them, a picture of `down` times
/// `across` rows takes as many positions as its longer side has. Its rows have three: that in time
/// is the first of them all, and those down and across count from there. In Gemma 3
/// they are those in the cache, and a row of a picture attends up to the picture's last. Fails if a
/// picture is not known any more.
Result<RowPositions> positions_behind(const Sight& sight, const std::vector<int32_t>& text,
                                      const std::vector<int64_t>& rows);

}  // namespace thimble
