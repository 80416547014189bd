#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// A sequence's part of a call.
struct SequenceRows {
  size_t sequence;  ///< its index
  size_t rows;
  bool gets_logits;                 ///< the last row
  std::vector<int32_t> draft = {};  ///< guesses behind a single row; these get logits too
};

/// Divides a call among sequences: one row for each answer, and `prompt_rows` for prompts, which
/// take turns. The parts are in the order that the delegate wants: without logits, with those of
/// the last of several rows, with those of a single row.
/// \param waiting the number of tokens that each sequence has ready, at least one.
/// \param turn the index of the first that a prompt's rows are given to.
std::vector<SequenceRows> divide(const std::vector<size_t>& waiting, size_t turn,
                                 size_t prompt_rows);

}  // namespace thimble
