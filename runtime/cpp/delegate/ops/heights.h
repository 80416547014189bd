#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble::cpu {

/// The rows of each slot where samples are shorter than those that memory is planned for. Kinds set
/// those of their outputs by shorten(), in the order of the operators.
class Heights {
 public:
  /// \param planned of each slot.
  explicit Heights(std::vector<size_t> planned)
      : planned_(std::move(planned)), now_(planned_.size(), 0) {}

  size_t planned(uint32_t slot) const { return planned_[slot]; }
  size_t of(uint32_t slot) const { return now_[slot] == 0 ? planned_[slot] : now_[slot]; }
  bool is_whole(uint32_t slot) const { return of(slot) == planned_[slot]; }

  /// Whether a slot has as much of its rows as another.
  bool has_part_of(uint32_t slot, uint32_t other) const {
    return of(slot) * planned_[other] == of(other) * planned_[slot];
  }

  /// Returns whether a slot can have so many rows: it has the same for each value that it holds.
  bool set(uint32_t slot, size_t rows) {
    if (rows < 1 || rows > planned_[slot] || (now_[slot] != 0 && now_[slot] != rows)) return false;
    now_[slot] = rows;
    return true;
  }
  /// Of an operator that computes a row from each row.
  bool by_row(uint32_t input, uint32_t output) { return set(output, of(input)); }
  /// Of one that needs all rows.
  bool by_whole(uint32_t input, uint32_t output) {
    return is_whole(input) && set(output, planned_[output]);
  }
  /// Of one whose rows are those of its input cut, or joined, in equal parts.
  bool by_part(uint32_t input, uint32_t output) {
    const size_t rows = of(input) * planned_[output];
    return rows % planned_[input] == 0 && set(output, rows / planned_[input]);
  }

 private:
  const std::vector<size_t> planned_;
  std::vector<size_t> now_;  ///< 0: not known yet
};

}  // namespace thimble::cpu
