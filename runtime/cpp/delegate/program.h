#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/status.h"
#include "kernels/cache.h"
#include "kernels/layout.h"

/// \file
/// The op list of delegates/cpu/program.fbs as plain structs, every number checked. See there what
/// the fields mean.

namespace thimble::cpu {

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

/// A piece of the blob of floats; of length 0 where it is absent.
struct Floats {
  uint64_t offset = 0;
  uint32_t length = 0;

  bool present() const { return length > 0; }
};

struct CacheShape {
  size_t num_key_value_heads;
  size_t head_dim;
  size_t max_context_len;
};

struct EmbeddingOp {
  uint32_t weight;
  uint32_t output;
};

struct NormOp {
  uint32_t input;
  uint32_t output;
  Floats weight;
  float eps;
};

struct LinearOp {
  uint32_t input;
  uint32_t output;
  uint32_t weight;
  Floats bias;
  Floats norm;
  float norm_eps;
  bool swiglu;
  bool accumulate;
  bool last_row;
  bool prepared;
};

struct AttentionOp {
  uint32_t query;
  uint32_t query_offset;
  uint32_t key;
  uint32_t key_offset;
  uint32_t value;
  uint32_t value_offset;
  uint32_t output;
  uint32_t num_attention_heads;
  uint32_t cache;
  float scale;
  Floats query_norm;
  Floats key_norm;
  float norm_eps;
  Floats cosines;
  Floats sines;
};

struct AddOp {
  uint32_t input;
  uint32_t output;
};

struct SwigluOp {
  uint32_t gate;
  uint32_t up;
  uint32_t output;
};

/// In the order of the schema's union Kind, which counts from 1.
using OpKind = std::variant<EmbeddingOp, NormOp, LinearOp, AttentionOp, AddOp, SwigluOp>;

/// Which rows of a call an op computes.
enum class Rows : uint8_t { kNone, kLast, kAll };

struct Op {
  std::string name;
  OpKind kind;
  uint32_t debug_id;
  uint32_t prepare_debug_id;
  /// Of its output, by what later ops read of it (find_rows()). Attention writes the keys and
  /// values of all rows to the cache whatever this says.
  Rows rows = Rows::kAll;
};

enum class Role : uint8_t { kTokens = 0, kStartPos = 1, kRows = 2 };

struct Value {
  Role role;
  uint32_t slot;
};

struct Slot {
  size_t width;          ///< in floats
  bool one_row = false;  ///< holds what a last_row linear left
};

/// A program that is safe to run: what read_program() returns.
struct Program {
  std::vector<Slot> slots;
  std::vector<Weight> weights;
  std::string floats;  ///< key of the blob of floats, or empty
  std::vector<CacheShape> caches;
  kernels::CacheType cache_type;
  std::vector<Op> ops;
  std::vector<Value> inputs;
  std::vector<Value> outputs;
  uint64_t num_floats = 0;  ///< that the blob must hold at least
  uint32_t checksum = 0;    ///< of the whole blob
};

/// Reads and checks `size` bytes at `data`, which are not kept. Any bytes may be given.
Result<Program> read_program(const uint8_t* data, size_t size);

/// Checks what the numbers of a program that was just read refer to, and sets what Program derives
/// from them. Called by read_program().
Status check_program(Program* program);

/// Sets Op::rows: what nobody reads is not computed, as all that follows the last attention but for
/// the last row of a call. Called by check_program().
Status find_rows(Program* program);

}  // namespace thimble::cpu
