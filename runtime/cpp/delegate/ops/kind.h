#pragma once

#include <cstddef>
#include <cstdint>

#include "core/flatbuffer.h"
#include "kernels/kernels.h"

/// \file
/// What every kind of operator has. A kind is a plain struct of its table's fields in
/// delegates/op_list/program.fbs, in a pair of files of its own, with
///
/// - kName: its name in the schema;
/// - output: the slot that it writes;
/// - read(): its fields from the table, where every number may be anything;
/// - check(): that they refer to what is there;
/// - walk(): which rows of its inputs it reads, for those that are read of its output;
/// - needs(): what it takes of the workspace;
/// - run(): its work on one thread: begins the event of its last part, returns what that does. The
///   caller waits for all threads before the next op.
///
/// kinds.h lists them. No other file of the CPU delegate names one.

namespace thimble::cpu {

class Checker;
class RowNeeds;
struct Op;
struct OpContext;
struct OpRows;
struct Program;
struct Work;

/// Which rows of a call an op computes.
enum class Rows : uint8_t { kNone, kLast, kAll };

/// A piece of the blob of floats; of length 0 where it is absent.
struct Floats {
  uint64_t offset = 0;
  uint32_t length = 0;

  bool present() const { return length > 0; }
};

inline Floats read_floats(const FlatbufferTable& table) {
  return {table.scalar<uint64_t>(0), table.scalar<uint32_t>(1)};
}

inline kernels::Function read_function(const FlatbufferTable& table, size_t field) {
  return static_cast<kernels::Function>(table.scalar<uint8_t>(field));
}

/// What an op takes of the workspace, each in the largest that any op asks for.
struct WorkspaceNeeds {
  size_t columns = 0;          ///< stored, of rows quantized for a weight
  size_t normed_columns = 0;   ///< of rows normed and not quantized
  size_t sums = 0;             ///< integers, of a product cut along its columns
  size_t partials = 0;         ///< floats, of attention computed in splits
  size_t scratch = 0;          ///< bytes of each thread
  size_t scratch_per_row = 0;  ///< and more for each row of a chunk

  void include(const WorkspaceNeeds& other);
};

}  // namespace thimble::cpu
