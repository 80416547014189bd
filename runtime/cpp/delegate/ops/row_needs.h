#pragma once

#include <vector>

#include "delegate/program/program.h"

namespace thimble::cpu {

/// Walks the ops from the last to the first, and keeps what rows of each slot are read later: what
/// a kind's walk() asks and says.
class RowNeeds {
 public:
  explicit RowNeeds(Program* program);

  /// Sets what Op derives from it; returns whether no slot of one row is read for all.
  bool run();

  /// The op writes the slot: returns the rows that are read later, and no more wanted of before.
  Rows written(uint32_t slot);
  /// The op adds to the slot: returns the rows that are read later, and still wanted of before.
  Rows updated(uint32_t slot);
  /// The op reads these rows of a slot.
  void reads(uint32_t slot, Rows rows);
  /// The op runs on all rows, for what it leaves elsewhere.
  void runs_for_all();
  /// The op wants to find its input as the op before has prepared it.
  void finds_prepared();

 private:
  Program& program_;
  Op* op_ = nullptr;
  std::vector<Rows> needed_;
  bool consistent_ = true;
};

}  // namespace thimble::cpu
