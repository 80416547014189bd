#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "delegate/ops/kinds.h"
#include "kernels/kernels.h"
#include "kernels/layout/layout.h"
#include "kernels/shared/cache.h"

/// \file
/// The op list of delegates/op_list/program.fbs as plain structs, every number checked. See there
/// what the fields mean.

namespace thimble::cpu {

/// Those that are read. Each has all that the ones before have.
inline constexpr uint32_t kFirstProgramVersion = 6, kProgramVersion = 16;

struct Weight {
  std::string key;
  size_t rows;
  size_t columns;  ///< before padding
  size_t group_size;
  kernels::WeightFormat format;

  bool quantized() const { return format != kernels::WeightFormat::kFloat32; }
  /// The weight at `data`.
  kernels::PackedWeight packed(const uint8_t* data) const {
    return {data, rows, kernels::stored_columns(format, columns, group_size), group_size, format};
  }
};

struct CacheShape {
  std::string name;  ///< by which the programs of a session share it
  size_t num_key_value_heads;
  size_t head_dim;
  size_t max_context_len;
  size_t rows = 0;    ///< of a ring: position p is in row p % rows; 0: all positions are kept
  size_t window = 0;  ///< that reads a ring; set by check_program()

  /// Tokens that may be written together without a loss of what the first of them sees, whose
  /// window is read from the start of a block of 16 positions on.
  size_t most_rows() const {
    return rows == 0 ? SIZE_MAX : rows + 2 - std::min(rows, window + kernels::kCacheLanes);
  }
};

/// What a recurrent operator keeps of the positions before its next row.
struct StateShape {
  std::string name;             ///< by which the programs of a session share it
  size_t rows;                  ///< of the last positions
  size_t width;                 ///< in floats
  size_t history = 0;           ///< rows that are kept; set by check_program(), 0 if no op uses it
  kernels::DeltaShape delta{};  ///< of a row of matrices; set likewise

  size_t bytes() const { return rows * width * sizeof(float); }
  /// With what makes it that of an earlier row again.
  size_t kept_bytes() const {
    const size_t log = delta.heads * delta.matrix() + kernels::kDeltaLogRows * delta.steps();
    return (std::max(rows, history) * width + log) * sizeof(float);
  }
};

/// Low-rank changes of the weights, of which a call uses one or none.
struct Adapter {
  std::string name;
  std::string key;          ///< of its float16 numbers
  uint64_t num_halves = 0;  ///< that they must be at least; set by check_program()
};

struct Op {
  std::string name;
  OpKind kind;
  uint32_t debug_id;
  uint32_t prepare_debug_id;
  // Set by find_rows():
  Rows rows = Rows::kAll;     ///< of its output, by what later ops read of it
  size_t height = 0;          ///< of its output
  bool runs_for_all = false;  ///< in any case: it also writes something of all rows elsewhere
  bool prepared = false;      ///< the op before has already prepared its input
};

enum class Role : uint8_t { kTokens = 0, kStartPos = 1, kRows = 2 };

struct Value {
  Role role;
  uint32_t slot;
};

struct Slot {
  size_t width;            ///< in floats
  bool last_only = false;  ///< holds only the rows of a call that get logits
  size_t height = 0;       ///< rows for each segment of a call; 0: a row for each of its tokens

  bool is_per_segment() const { return height > 0; }
  bool has_all_rows() const { return !last_only && !is_per_segment(); }
};

/// A program that is safe to run: what read_program() returns.
struct Program {
  std::vector<Slot> slots;
  std::vector<Weight> weights;
  std::string floats;  ///< key of the blob of floats, or empty
  std::vector<CacheShape> caches;
  std::vector<StateShape> states;
  std::vector<Adapter> adapters;
  kernels::CacheType cache_type;
  std::vector<Op> ops;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  uint64_t num_floats = 0;          ///< that the blob must hold at least
  size_t num_tokens = SIZE_MAX;     ///< that are embedded, if any are
  size_t num_positions = SIZE_MAX;  ///< that caches and tables have, where there are any
  bool needs_segments = false;      ///< whole: a part of one has no meaning
  size_t original = 0;  ///< longest text that uses the first rows of rotary tables; 0: they are one
  bool by_sample = false;              ///< every slot has a fixed height: a segment is a sample
  std::vector<uint32_t> shorter = {};  ///< inputs, of a program by sample, that may have fewer rows
  size_t sample_tokens = 0;            ///< that each sample has, of a program by sample that embeds
  uint32_t checksum = 0;               ///< of the whole blob

  bool embeds() const { return num_tokens != SIZE_MAX; }
  /// Whether calls read what earlier ones have written.
  bool keeps() const { return !caches.empty() || !states.empty(); }
  /// How many positions lie between two snapshots of all states; 0: none are taken. A full context
  /// has as many as fit a few dozen megabytes, so that what a rewind computes again is a small
  /// part.
  size_t snapshot_interval() const;
  bool has_positions() const { return num_positions != SIZE_MAX; }
  /// Tokens in `rows` rows of a call.
  size_t tokens_of(size_t rows) const { return by_sample ? rows * sample_tokens : rows; }
};

/// Reads and checks `size` bytes at `data`, which are not kept. Any bytes may be given.
Result<Program> read_program(const uint8_t* data, size_t size);

/// Returns a program by sample for one sample of fewer rows, in the memory of the whole one.
/// \param heights of each input; those that are not rows count nothing.
Result<Program> shortened(const Program& whole, const std::vector<size_t>& heights);

/// Checks the references in a program that was just read, and sets the derived fields of Program.
/// Called by read_program().
Status check_program(Program* program);

/// Sets the derived fields of Op: what nothing reads is not computed, such as all that follows the
/// last attention, except for the last row of a call. Called by check_program().
Status find_rows(Program* program);

}  // namespace thimble::cpu
