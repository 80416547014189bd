#pragma once

#include <cstddef>
#include <optional>

#include "delegate/program/program.h"

namespace thimble::cpu {

/// Rows of a call that run together.
struct Chunk {
  size_t first;  ///< row of the call
  size_t rows;
};

/// Rows of a chunk that an op computes.
struct OpRows {
  size_t first;
  size_t count;
};

/// The rows of a chunk that an op computes; none: it is skipped.
inline std::optional<OpRows> rows_of(const Op& op, const Chunk& chunk, bool is_last) {
  if (op.rows == Rows::kAll) return OpRows{0, chunk.rows};
  if (op.rows == Rows::kLast && is_last) return OpRows{chunk.rows - 1, 1};
  if (op.runs_for_all) return OpRows{0, 0};
  return std::nullopt;
}

}  // namespace thimble::cpu
