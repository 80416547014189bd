#pragma once

/// \file
/// Which positions of a text queries do not see.

#include THIMBLE_VARIANT_HEADER
#include "kernels/kernels.h"

namespace thimble::kernels::THIMBLE_VARIANT {

/// Positions from `first` to before `end`.
struct TextRange {
  size_t first;
  size_t end;
};

/// The tiles of which queries `first` to `last` see something. They begin at multiples, however
/// many queries go together: so the order of sums is theirs.
inline TextRange seen_tiles(const TextAttentionArgs& args, size_t first, size_t last) {
  const size_t start = args.window != 0 && first >= args.window ? first - args.window + 1 : 0;
  const size_t seen = last + 1 + (args.after < args.rows ? args.after : args.rows);
  return {start - start % kTextTile, seen < args.rows ? seen : args.rows};
}

/// Whether a query of `first` to `last` does not see all of some positions.
inline bool hides_some(const TextAttentionArgs& args, size_t first, size_t last, TextRange seen) {
  const size_t last_seen = seen.end - 1;
  return (args.window != 0 && seen.first + args.window <= last) ||
         (last_seen > first && last_seen - first > args.after);
}

/// Writes a number for each of some positions and each of `count` queries, one in each lane, that
/// does not see it.
inline void hide(const TextAttentionArgs& args, size_t first, size_t count, TextRange seen,
                 float number, float* weights, size_t stride) {
  for (size_t position = seen.first; position < seen.end; ++position, weights += stride) {
    for (size_t lane = 0; lane < count; ++lane) {
      const size_t query = first + lane;
      const bool sees = position <= query ? args.window == 0 || query - position < args.window
                                          : position - query <= args.after;
      if (!sees) weights[lane] = number;
    }
  }
}

}  // namespace thimble::kernels::THIMBLE_VARIANT
