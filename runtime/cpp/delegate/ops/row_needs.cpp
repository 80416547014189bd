#include "delegate/ops/row_needs.h"

#include <algorithm>

namespace thimble::cpu {

RowNeeds::RowNeeds(Program* program)
    : program_(*program), needed_(program->slots.size(), Rows::kNone) {}

bool RowNeeds::run() {
  for (const Value& value : program_.outputs) {
    const Slot& slot = program_.slots[value.slot];
    reads(value.slot, slot.is_per_segment() ? Rows::kPerSegment
                      : slot.last_only      ? Rows::kLast
                                            : Rows::kAll);
  }
  for (auto op = program_.ops.rbegin(); op != program_.ops.rend(); ++op) {
    op_ = &*op;
    std::visit(
        [this](const auto& kind) {
          op_->height = program_.slots[kind.output].height;
          kind.walk(this);
        },
        op->kind);
  }
  // An op can use a prepared input only if the op before prepared the same rows.
  for (size_t i = 1; i < program_.ops.size(); ++i) {
    Op& op = program_.ops[i];
    op.prepared = op.prepared && op.rows == program_.ops[i - 1].rows;
  }
  return consistent_;
}

Rows RowNeeds::written(uint32_t slot) {
  op_->rows = needed_[slot];
  needed_[slot] = Rows::kNone;
  return op_->rows;
}

Rows RowNeeds::updated(uint32_t slot) {
  op_->rows = needed_[slot];
  return op_->rows;
}

void RowNeeds::reads(uint32_t slot, Rows rows) {
  needed_[slot] = std::max(needed_[slot], rows);
  const bool per_segment = program_.slots[slot].is_per_segment();
  if (program_.slots[slot].last_only && rows == Rows::kAll) consistent_ = false;
  if (rows != Rows::kNone && per_segment != (rows == Rows::kPerSegment)) consistent_ = false;
}

Rows RowNeeds::computed_of_all(uint32_t slot) {
  const bool read = needed_[slot] != Rows::kNone;
  needed_[slot] = Rows::kNone;
  const Rows all = program_.by_sample ? Rows::kPerSegment : Rows::kAll;
  op_->rows = read ? all : Rows::kNone;
  return op_->rows;
}

void RowNeeds::runs_for_all() { op_->runs_for_all = true; }

void RowNeeds::finds_prepared() { op_->prepared = true; }

Status find_rows(Program* program) {
  if (RowNeeds(program).run()) return {};
  return Status::error(
      "the CPU delegate's program is damaged: it reads all rows of a slot that holds fewer: export "
      "the model again");
}

}  // namespace thimble::cpu
