#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "delegate/program/program.h"
#include "delegate/threads/share.h"

namespace thimble::cpu {

struct ProgramCaches;

/// Rows of a call that run together.
struct Chunk {
  size_t first;  ///< row of the call
  size_t rows;
  Range last;          ///< those of its rows that get logits
  size_t last_before;  ///< how many rows of the call before it get logits
  Range segments{};    ///< of the call that are in it; of a program that pools, whole ones
};

/// A chunk of a call whose rows `last` get logits.
inline Chunk chunk_of(size_t first, size_t rows, Range last) {
  const size_t from = std::clamp(last.first, first, first + rows);
  const size_t to = std::clamp(last.last, first, first + rows);
  return {first,
          rows,
          {from - first, to - first},
          std::clamp(first, last.first, last.last) - last.first};
}

/// Rows of a chunk that belong to one segment: their positions follow each other in its caches.
struct Piece {
  size_t first;  ///< row of the chunk
  size_t rows;
  size_t position;  ///< of the first
  const ProgramCaches* caches;
  size_t segment = 0;    ///< its number in the call
  bool is_long = false;  ///< whether it uses the rotary tables for longer texts
  const uint32_t* positions =
      nullptr;  ///< [rows][pairs], that they are rotated by; null: their own
  size_t pairs = 1;
  const uint32_t* ends = nullptr;  ///< [rows], one behind what each attends to; null: its own
};

/// Rows of a chunk that an op computes.
struct OpRows {
  size_t first;
  size_t count;
};

/// The rows of a chunk that an op computes; none: it is skipped.
inline std::optional<OpRows> rows_of(const Op& op, const Chunk& chunk) {
  if (op.rows == Rows::kAll) return OpRows{0, chunk.rows};
  if (op.rows == Rows::kPerSegment) return OpRows{0, chunk.segments.size() * op.height};
  if (op.rows == Rows::kLast && chunk.last.size() > 0) {
    return OpRows{chunk.last.first, chunk.last.size()};
  }
  if (op.runs_for_all) return OpRows{0, 0};
  return std::nullopt;
}

}  // namespace thimble::cpu
