#include "delegate/session/state_cache.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace thimble::cpu {

Result<StateCache> StateCache::allocate(const StateGeometry& geometry) {
  StateCache state;
  state.geometry_ = geometry;
  const size_t numbers =
      geometry.history * geometry.width + geometry.snapshots * geometry.numbers();
  const size_t bytes = numbers * sizeof(float);
  state.pages_ = platform::Pages::allocate(bytes, platform::Pages::Kind::kSmall);
  if (!state.pages_.valid()) {
    return Status::error("a state of " + std::to_string(bytes) +
                         " bytes does not fit into memory: free some");
  }
  if (geometry.delta.heads > 0) {
    Result<DeltaLog> log = DeltaLog::allocate(geometry.delta, geometry.replay);
    if (!log.ok()) return log.status();
    state.log_ = std::move(*log);
  }
  return state;
}

size_t StateCache::until_snapshot(size_t position) const {
  return geometry_.interval == 0 ? SIZE_MAX : geometry_.interval - position % geometry_.interval;
}

void StateCache::take_snapshot(size_t position, size_t first_column, size_t columns) {
  if (geometry_.interval == 0 || position % geometry_.interval != 0) return;
  float* to = snapshot(position) + first_column;
  for (size_t i = geometry_.rows; i > 0; --i, to += geometry_.width) {
    std::copy_n(row(position - i) + first_column, columns, to);
  }
}

void StateCache::set_written(size_t start, size_t count) {
  if (start == 0) oldest_ = 0;
  const size_t end = start + count;
  if (end > geometry_.history) oldest_ = std::max(oldest_, end - geometry_.history);
  if (log_.has_value()) log_->set_written(end);
}

bool StateCache::keeps(size_t length) const {
  if (log_.has_value()) return log_->reaches(length);
  return oldest_ == 0 || length >= oldest_ + geometry_.rows;
}

size_t StateCache::reachable(size_t length) const {
  return keeps(length) ? length : geometry_.snapshot_before(length);
}

void StateCache::return_to(size_t length) {
  if (length == 0) oldest_ = 0;
  if (length > 0 && !keeps(length)) {
    set_rows(length, snapshot(length));
  } else if (log_.has_value()) {
    log_->return_to(length, data());
  }
}

Result<StateCache> StateCache::copy(size_t length) const {
  Result<StateCache> copy = allocate(geometry_);
  if (!copy.ok()) return copy;
  copy->oldest_ = oldest_;
  const size_t numbers =
      geometry_.history * geometry_.width + geometry_.snapshots_at(length) * geometry_.numbers();
  std::copy_n(data(), numbers, copy->data());
  if (!log_.has_value()) return copy;
  Result<DeltaLog> log = log_->copy();
  if (!log.ok()) return log.status();
  copy->log_ = std::move(*log);
  return copy;
}

void StateCache::save(size_t length, uint8_t* to) const {
  const size_t row_bytes = geometry_.width * sizeof(float);
  for (size_t i = geometry_.rows; i > 0; --i, to += row_bytes) {
    if (i > length) {
      std::memset(to, 0, row_bytes);
    } else {
      std::memcpy(to, row(length - i), row_bytes);
    }
  }
  const size_t snapshots = geometry_.snapshots_at(length);
  if (snapshots > 0) std::memcpy(to, snapshot(geometry_.interval), snapshots * geometry_.bytes());
}

void StateCache::restore(size_t length, const uint8_t* from) {
  set_rows(length, reinterpret_cast<const float*>(from));
  const size_t snapshots = geometry_.snapshots_at(length);
  if (snapshots == 0) return;
  std::memcpy(snapshot(geometry_.interval), from + geometry_.bytes(),
              snapshots * geometry_.bytes());
}

void StateCache::set_rows(size_t length, const float* from) {
  const size_t row_bytes = geometry_.width * sizeof(float);
  for (size_t i = geometry_.rows; i > 0; --i, from += geometry_.width) {
    if (i <= length) std::memcpy(row(length - i), from, row_bytes);
  }
  oldest_ = length - std::min(length, geometry_.rows);
  if (log_.has_value()) log_->begin(length, data());
}

}  // namespace thimble::cpu
