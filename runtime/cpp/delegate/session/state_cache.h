#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/status.h"
#include "delegate/session/delta_log.h"
#include "platform/pages.h"

namespace thimble::cpu {

/// So many rows of a call are kept beyond those that the next row reads: the state after each of
/// the last so many rows is still there.
constexpr size_t kReturnRows = 8;

/// The geometry of a state.
struct StateGeometry {
  size_t rows;                  ///< of the last positions, which the next row reads
  size_t width;                 ///< float32 numbers of a row
  size_t history;               ///< rows of the last positions that are kept, `rows` at least
  size_t interval = 0;          ///< positions from one snapshot to the next; 0: there are none
  size_t snapshots = 0;         ///< the most that are taken
  kernels::DeltaShape delta{};  ///< of a row of matrices; no heads: it is none
  DeltaLog::Replay replay = nullptr;  ///< of its log

  bool operator==(const StateGeometry& other) const {
    return rows == other.rows && width == other.width && history == other.history &&
           interval == other.interval && snapshots == other.snapshots && delta == other.delta;
  }

  size_t numbers() const { return rows * width; }
  size_t bytes() const { return numbers() * sizeof(float); }
  /// Of a cache of `length` positions.
  size_t snapshots_at(size_t length) const { return interval == 0 ? 0 : length / interval; }
  /// The position of the last snapshot up to `length`; 0: there is none.
  size_t snapshot_before(size_t length) const { return snapshots_at(length) * interval; }
  /// The rows that position `length` reads, and the snapshots before it.
  size_t saved_bytes(size_t length) const { return (1 + snapshots_at(length)) * bytes(); }
};

/// What one recurrent operator keeps: the rows of the last positions, those that the next row reads
/// and a few more, so that a call can start a few positions earlier; and snapshots of those that
/// the rows at every `interval`-th position read, from which earlier ones are computed again. Of
/// matrices, which are one row, a log has the last.
class StateCache {
 public:
  static Result<StateCache> allocate(const StateGeometry& geometry);

  const StateGeometry& geometry() const { return geometry_; }
  /// [history][width]; position p is in row p % history.
  float* data() const { return reinterpret_cast<float*>(pages_.data()); }
  /// Of matrices alone.
  const DeltaLog& log() const { return *log_; }

  /// How many positions from `position` on may be written before the next snapshot is due.
  size_t until_snapshot(size_t position) const;
  /// Takes the snapshot of some columns, if one is due before position `position`.
  void take_snapshot(size_t position, size_t first_column, size_t columns);
  /// Records that `count` positions from `start` on were written.
  void set_written(size_t start, size_t count);

  /// The last position up to `length`, of those that were written, at which a call can start.
  size_t reachable(size_t length) const;
  /// Makes the state that of a position which is reachable().
  void return_to(size_t length);

  Result<StateCache> copy(size_t length) const;
  /// Writes geometry().saved_bytes(length): zeros for rows before position 0.
  void save(size_t length, uint8_t* to) const;
  /// Takes what was saved of that length.
  void restore(size_t length, const uint8_t* from);

 private:
  /// Whether what position `length` reads is there, or can be computed from the log.
  bool keeps(size_t length) const;
  float* row(size_t position) const {
    return data() + position % geometry_.history * geometry_.width;
  }
  float* snapshot(size_t position) const {
    const size_t index = position / geometry_.interval - 1;
    return data() + geometry_.history * geometry_.width + index * geometry_.numbers();
  }
  /// Makes these the rows that position `length` reads.
  void set_rows(size_t length, const float* from);

  StateGeometry geometry_{};
  platform::Pages pages_;
  size_t oldest_ = 0;  ///< position that is in the history
  std::optional<DeltaLog> log_;
};

}  // namespace thimble::cpu
