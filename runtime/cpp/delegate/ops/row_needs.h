#pragma once

#include <vector>

#include "delegate/program/program.h"

namespace thimble::cpu {

/// Walks the ops from the last to the first, and tracks which rows of each slot are read later. The
/// kinds' walk() calls these functions.
class RowNeeds {
 public:
  explicit RowNeeds(Program* program);

  /// Sets what Op derives from the walk; returns whether no slot of one row is read for all rows.
  bool run();

  /// The op writes the slot: returns the rows that are read later. No earlier op needs to write
  /// them.
  Rows written(uint32_t slot);
  /// The op writes the slot from all rows of whole segments, if it is read: returns those rows.
  Rows computed_of_all(uint32_t slot);
  /// The op adds to the slot: returns the rows that are read later. Earlier ops must still write
  /// them.
  Rows updated(uint32_t slot);
  /// The op reads these rows of a slot.
  void reads(uint32_t slot, Rows rows);
  /// The op runs on all rows, because it also writes elsewhere.
  void runs_for_all();
  /// The op uses the input that the op before has prepared.
  void finds_prepared();

 private:
  Program& program_;
  Op* op_ = nullptr;
  std::vector<Rows> needed_;
  bool consistent_ = true;
};

}  // namespace thimble::cpu
