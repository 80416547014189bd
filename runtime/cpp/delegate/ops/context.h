#pragma once

#include <executorch/runtime/core/event_tracer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "delegate/memory/workspace.h"
#include "delegate/ops/rows.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"
#include "delegate/threads/share.h"
#include "delegate/threads/thread_team.h"
#include "kernels/kernels.h"

namespace thimble::cpu {

/// What an event did: the metadata of its record, `Work` of delegates/op_list/program.fbs.
struct Work {
  uint64_t bytes;
  uint64_t operations;
  uint32_t rows;
  uint32_t threads;
};
static_assert(sizeof(Work) == 24, "the schema's struct has no padding");

/// Records the parts of ops, on one thread, if a tracer is there.
class OpTimer {
 public:
  /// \param tracer null: nothing is recorded.
  explicit OpTimer(executorch::runtime::EventTracer* tracer) : tracer_(tracer) {}

  void begin(uint32_t debug_id) {
    if (tracer_ != nullptr) entry_ = tracer_->start_profiling_delegate(nullptr, debug_id);
  }
  void end(const Work& work) {
    if (tracer_ != nullptr) tracer_->end_profiling_delegate(entry_, &work, sizeof(work));
  }

 private:
  executorch::runtime::EventTracer* tracer_;
  executorch::runtime::EventTracerEntry entry_{};
};

/// A thread's part of rows x columns.
struct Part {
  Range rows;
  Range columns;
};

/// Weights that a thread multiplies by up to kMatvecRows rows at a time, at least: some
/// microseconds, beside which the call of a kernel is nothing.
constexpr size_t kPartBytes = size_t{64} << 10;

/// Everything that an op uses on one thread. Each thread has its own. Rows are counted from the
/// chunk's first on; an op that runs per segment counts them from the piece's first on.
struct OpContext {
  const Program& program;
  const kernels::Variant& kernels;
  const std::vector<kernels::PackedWeight>& weights;
  const float* floats;
  const Workspace& workspace;
  const std::vector<float*>& slots;  ///< the workspace's and the caller's
  ThreadTeam& team;
  const int64_t* tokens;  ///< of the whole call
  CallAdapter adapter;    ///< of the segments' caches
  size_t thread;
  const std::vector<Piece>& segments;  ///< of the call, rows counted from its first
  Chunk chunk;
  Piece piece;  ///< of an op that runs per segment; else the whole chunk, without caches
  OpTimer timer;
  std::vector<float> angles{};  ///< of a row whose pairs of numbers differ in position

  size_t threads() const { return team.size(); }
  /// Row `row` in a slot that has it.
  float* row(uint32_t slot, size_t row) const {
    const size_t each = height(slot);
    if (each > 0) {
      const size_t before = program.by_sample ? piece.first : 0;
      return segment_row(slot, chunk.segments.first + before) + row * workspace.stride(slot);
    }
    const bool last_only = program.slots[slot].last_only;
    size_t index = piece.first + row - (last_only ? chunk.last.first : 0);
    if (workspace.is_bound(slot)) index += last_only ? chunk.last_before : chunk.first;
    return slots[slot] + index * workspace.stride(slot);
  }
  /// The first row of a segment of the call, which is in the chunk, in a slot with a height.
  float* segment_row(uint32_t slot, size_t segment) const {
    const size_t before = workspace.is_bound(slot) ? 0 : chunk.segments.first;
    return slots[slot] + (segment - before) * height(slot) * workspace.stride(slot);
  }
  /// The distance from one row of a slot to the next, in floats.
  size_t stride(uint32_t slot) const { return workspace.stride(slot); }
  /// Columns of a slot.
  size_t width(uint32_t slot) const { return program.slots[slot].width; }
  /// Rows of a slot for each segment; 0: for each token.
  size_t height(uint32_t slot) const { return program.slots[slot].height; }
  /// The numbers of a piece; null where it is absent.
  const float* numbers(const Floats& piece) const {
    return piece.present() ? floats + piece.offset : nullptr;
  }
  /// The position of row `row` of the piece.
  size_t position(size_t row) const { return piece.position + row; }
  /// The same of a slot, of a program by sample in the row's sample.
  size_t position(uint32_t slot, size_t row) const {
    return program.by_sample ? row % height(slot) : position(row);
  }
  /// The row of rotary tables for a position of the piece.
  size_t angle_row(size_t position) const {
    return piece.is_long ? program.original + position : position;
  }
  /// Rotates heads of row `row` of the piece by the angles of its position, or of its pairs'.
  void rotate(float* heads, size_t count, size_t dim, const Floats& cosines, const Floats& sines,
              size_t row) {
    const size_t half = dim / 2, pairs = piece.pairs;
    const float *all_cosines = numbers(cosines), *all_sines = numbers(sines);
    const uint32_t* given = piece.positions == nullptr ? nullptr : piece.positions + row * pairs;
    if (given == nullptr || pairs == 1) {
      const size_t at = angle_row(given == nullptr ? position(row) : *given) * half;
      return kernels.rope(heads, count, dim, all_cosines + at, all_sines + at);
    }
    angles.resize(dim);
    for (size_t i = 0; i < half; ++i) {
      const size_t at = angle_row(given[std::min(i, pairs - 1)]) * half + i;
      angles[i] = all_cosines[at];
      angles[half + i] = all_sines[at];
    }
    kernels.rope(heads, count, dim, angles.data(), angles.data() + half);
  }
  /// The thread's part of some rows: rows if there are several, else columns.
  Part part(OpRows rows, size_t columns) const {
    if (rows.count == 1) {
      return {{rows.first, rows.first + 1}, share(columns, kernels::kBlockRows, thread, threads())};
    }
    const Range range = share(rows.count, thread, threads());
    return {{rows.first + range.first, rows.first + range.last}, {0, columns}};
  }
  /// Calls product(range) with parts of 0 .. count, in whole steps but for the end of the last, as
  /// threads get on: ThreadTeam::share_out(). Each is a product of `bytes` of weights and `rows`
  /// rows.
  template <typename Product>
  void share_products(size_t count, size_t step, size_t bytes, size_t rows,
                      Product&& product) const {
    const size_t step_bytes = step * bytes * kernels::divide_up(rows, kernels::kMatvecRows);
    team.share_out(thread, kernels::divide_up(count, step),
                   kernels::divide_up(kPartBytes, step_bytes), [&](Range steps) {
                     product(Range{steps.first * step, std::min(steps.last * step, count)});
                   });
  }
  Work work(size_t bytes, size_t operations, size_t rows) const {
    return {bytes, operations, static_cast<uint32_t>(rows), static_cast<uint32_t>(threads())};
  }
};

}  // namespace thimble::cpu
