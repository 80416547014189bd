#pragma once

#include <cstddef>
#include <cstdint>

#include "core/flatbuffer.h"
#include "delegate/ops/heights.h"
#include "kernels/kernels.h"

/// \file
/// What every kind of operator has. A kind is a plain struct with the fields of its table in
/// delegates/op_list/program.fbs, in its own pair of files, with
///
/// - kName: its name in the schema;
/// - kPerSegment: whether it depends on positions or caches: it then runs for one segment of a call
///   after the other, else for the rows of all;
/// - output: the slot that it writes;
/// - read(): reads its fields from the table, which may hold any number;
/// - check(): checks that they refer to things that exist;
/// - walk(): tells which rows of its inputs it reads, from the rows of its output that are read;
/// - shorten(): where it runs on shorter samples than it was exported for: adapts to the rows of
/// its
///   inputs, and sets those of its output; returns whether it can;
/// - needs(): tells what it uses of the workspace;
/// - run(): does its work on one thread: begins the event of its last part and returns what that
///   does. The caller waits for all threads before the next op.
///
/// kinds.h lists the kinds. No other file of the CPU delegate names one.

namespace thimble::cpu {

class Checker;
class RowNeeds;
struct Op;
struct OpContext;
struct OpRows;
struct Program;
struct Work;

/// Which rows of a call an op computes; the last are those that get logits. A slot with a height
/// has as many for each segment.
enum class Rows : uint8_t { kNone, kLast, kAll, kPerSegment };

/// A part of the floats' blob; its length is 0 if it is absent.
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

/// What an op uses of the workspace; each number is the largest that any op needs.
struct WorkspaceNeeds {
  size_t columns = 0;          ///< stored columns of rows quantized for a weight
  size_t normed_columns = 0;   ///< columns of rows normed but not quantized
  size_t shrunk = 0;           ///< floats of each row between the products of an adapter
  size_t sums = 0;             ///< integers of a product cut along its columns
  size_t partials = 0;         ///< floats of attention computed in splits
  size_t shared = 0;           ///< bytes that all threads share
  size_t shared_per_row = 0;   ///< additional bytes for each row of a chunk
  size_t scratch = 0;          ///< bytes for each thread
  size_t scratch_per_row = 0;  ///< additional bytes for each row of a chunk

  void include(const WorkspaceNeeds& other);
};

}  // namespace thimble::cpu
