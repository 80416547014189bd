#pragma once

#include "delegate/ops/kind.h"

namespace thimble::cpu {

/// What a step computes: the schema's enum of that name.
enum class Cell : uint8_t { kLstm, kGru, kRnnTanh, kRnnRelu };

/// The steps of a recurrent layer over the rows of each sample.
struct RecurrentOp {
  uint32_t input;
  uint32_t output;
  uint32_t weight;
  uint32_t hidden;
  uint32_t memory;
  bool stateful;  ///< whether hidden is read, and memory where there is one
  bool reverse;
  Floats bias{};
  Cell cell = Cell::kLstm;

  static constexpr const char* kName = "Recurrent";
  static constexpr bool kPerSegment = false;
  static RecurrentOp read(const FlatbufferTable& table);
  void check(Checker* checker) const;
  void walk(RowNeeds* rows) const;
  WorkspaceNeeds needs(const Program& program, const kernels::Variant&, size_t) const;
  Work run(const Op& op, OpRows rows, OpContext& context) const;

  /// Of each unit.
  size_t gates() const { return cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1; }
  bool has_memory() const { return cell == Cell::kLstm; }
};

}  // namespace thimble::cpu
