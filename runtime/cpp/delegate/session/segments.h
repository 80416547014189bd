#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "delegate/session/session.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

/// The cache of a segment for a program that keeps nothing.
inline constexpr int32_t kNoCache = -1;

/// Rows of one sequence: positions that follow each other in one of the session's caches.
struct Segment {
  int32_t cache = 0;      ///< its number
  int64_t start_pos = 0;  ///< position of the first row
  size_t rows = 0;
  size_t last_rows = 1;               ///< how many of the last get logits
  std::vector<uint32_t> positions{};  ///< [rows][pairs], that they are rotated by; or empty
  size_t pairs = 1;
  /// [rows], one behind the last position that each attends to; or empty: one behind its own.
  std::vector<uint32_t> ends{};

  /// The most rows that must run together, because they attend to each other.
  size_t together() const;
};

/// Most rows of a call that get logits, unless the program gives those of all.
inline constexpr size_t kMostLastRows = THIMBLE_MOST_LOGIT_ROWS;

/// What thimble_session_segments() sets for the next call.
struct AskedSegments {
  std::vector<Segment> segments;  ///< empty: the call is one segment of the current cache
  float* logits = nullptr;
  size_t logits_size = 0;  ///< in floats
};

/// The rows of a call that get logits, if they follow one another.
Result<Range> find_last_rows(const std::vector<Segment>& segments);

/// Checks what is asked for, apart from whether there are such caches.
Result<AskedSegments> read_segments(const thimble_segment* segments, size_t count, float* logits,
                                    size_t logits_size);

}  // namespace thimble::cpu
