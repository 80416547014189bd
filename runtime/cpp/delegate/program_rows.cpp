#include <algorithm>

#include "delegate/program.h"

namespace thimble::cpu {
namespace {

/// Walks the ops from the last to the first, and keeps what rows of each slot are read later.
class Walk {
 public:
  explicit Walk(Program* program)
      : program_(*program), needed_(program->slots.size(), Rows::kNone) {}

  bool run() {
    for (const Value& value : program_.outputs) {
      need(value.slot, program_.slots[value.slot].one_row ? Rows::kLast : Rows::kAll);
    }
    for (auto op = program_.ops.rbegin(); op != program_.ops.rend(); ++op) {
      op->rows = std::visit([this](const auto& kind) { return walk(kind); }, op->kind);
    }
    keep_what_is_prepared();
    return consistent_;
  }

 private:
  void need(uint32_t slot, Rows rows) {
    needed_[slot] = std::max(needed_[slot], rows);
    if (program_.slots[slot].one_row && rows == Rows::kAll) consistent_ = false;
  }
  /// What is needed of a slot that is written here; nothing of what it held before.
  Rows written(uint32_t slot) {
    const Rows rows = needed_[slot];
    needed_[slot] = Rows::kNone;
    return rows;
  }

  /// A linear finds its input prepared only if the one before prepared the same rows.
  void keep_what_is_prepared() {
    for (size_t i = 1; i < program_.ops.size(); ++i) {
      auto* linear = std::get_if<LinearOp>(&program_.ops[i].kind);
      if (linear != nullptr && program_.ops[i].rows != program_.ops[i - 1].rows) {
        linear->prepared = false;
      }
    }
  }

  Rows walk(const EmbeddingOp& op) { return written(op.output); }
  Rows walk(const NormOp& op) {
    const Rows rows = written(op.output);
    need(op.input, rows);
    return rows;
  }
  Rows walk(const LinearOp& op) {
    const Rows rows = op.accumulate ? needed_[op.output] : written(op.output);
    need(op.input, rows);
    return rows;
  }
  Rows walk(const AttentionOp& op) {
    const Rows rows = written(op.output);
    need(op.query, rows);
    need(op.key, Rows::kAll);
    need(op.value, Rows::kAll);
    return rows;
  }
  Rows walk(const AddOp& op) {
    const Rows rows = needed_[op.output];
    need(op.input, rows);
    return rows;
  }
  Rows walk(const SwigluOp& op) {
    const Rows rows = written(op.output);
    need(op.gate, rows);
    need(op.up, rows);
    return rows;
  }

  Program& program_;
  std::vector<Rows> needed_;
  bool consistent_ = true;
};

}  // namespace

Status find_rows(Program* program) {
  if (Walk(program).run()) return {};
  return Status::error(
      "the CPU delegate's program is damaged: it reads all rows of a slot that holds the last "
      "alone: export the model again");
}

}  // namespace thimble::cpu
