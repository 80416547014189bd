#include "delegate/session/delta_log.h"

#include <algorithm>
#include <string>

#include "delegate/session/state_cache.h"

namespace thimble::cpu {

using kernels::kDeltaLogRows;

static_assert(kDeltaLogRows == 2 * kReturnRows,
              "the base moves by as many rows as can be had back");

Result<DeltaLog> DeltaLog::allocate(const kernels::DeltaShape& shape, Replay replay) {
  DeltaLog log;
  log.shape_ = shape;
  log.replay_ = replay;
  const size_t numbers = shape.heads * shape.matrix() + kDeltaLogRows * shape.steps();
  log.pages_ = platform::Pages::allocate(numbers * sizeof(float), platform::Pages::Kind::kSmall);
  if (log.pages_.valid()) return log;
  return Status::error("a log of states of " + std::to_string(numbers * sizeof(float)) +
                       " bytes does not fit into memory: free some");
}

size_t DeltaLog::base_after(size_t end) const {
  const size_t whole = end / kReturnRows * kReturnRows;
  return std::max(base_position_, whole - std::min(whole, kReturnRows));
}

void DeltaLog::replay(size_t from, size_t to, size_t first_head, size_t heads,
                      float* matrices) const {
  const size_t step = kernels::delta_step_size(shape_.key_dim, shape_.value_dim);
  for (size_t head = first_head; head < first_head + heads; ++head) {
    replay_({steps() + head * step, shape_.steps(), from, to - from, shape_.key_dim,
             shape_.value_dim, matrices + head * shape_.matrix()});
  }
}

void DeltaLog::set_written(size_t end) {
  base_position_ = base_after(end);
  end_ = end;
}

void DeltaLog::return_to(size_t length, float* matrices) {
  if (length < end_ && length > 0) {
    std::copy_n(base(), shape_.heads * shape_.matrix(), matrices);
    replay(base_position_, length, 0, shape_.heads, matrices);
  }
  end_ = length;
  if (length == 0) base_position_ = 0;
}

void DeltaLog::begin(size_t position, const float* matrices) {
  std::copy_n(matrices, shape_.heads * shape_.matrix(), base());
  base_position_ = end_ = position;
}

Result<DeltaLog> DeltaLog::copy() const {
  Result<DeltaLog> copy = allocate(shape_, replay_);
  if (!copy.ok()) return copy;
  std::copy_n(pages_.data(), pages_.size(), copy->pages_.data());
  copy->base_position_ = base_position_;
  copy->end_ = end_;
  return copy;
}

}  // namespace thimble::cpu
