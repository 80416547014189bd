#pragma once

#include <vector>

#include "core/status.h"
#include "delegate/metal/dispatch.h"
#include "delegate/program/program.h"
#include "delegate/session/kv_cache.h"
#include "delegate/session/session_state.h"

namespace thimble::metal {

/// From an op list to dispatches: the place of everything in a device's buffers, planned once, and
/// what to run for a call. Independent of Metal's host side.
class Plan {
 public:
  /// The numbers of buffers; each weight and each cache has its own.
  static constexpr uint32_t kArena = 0;   ///< slots and what lies between kernels
  static constexpr uint32_t kTokens = 1;  ///< int32, of the whole call
  static constexpr uint32_t kFloats = 2;
  static constexpr uint32_t kWeights = 3;

  /// \param program which must outlive the plan.
  static Result<Plan> create(const cpu::Program& program, kernels::CacheType cache_type);

  uint32_t weight(size_t index) const { return kWeights + static_cast<uint32_t>(index); }
  uint32_t cache(size_t index) const;
  uint32_t buffer_count() const { return cache(caches_.size()); }

  size_t arena_bytes() const { return arena_bytes_; }
  /// The most tokens of a call.
  size_t most_tokens() const { return most_tokens_; }
  const std::vector<cpu::CacheGeometry>& caches() const { return caches_; }
  /// The caches by name, as a session takes them.
  std::vector<cpu::NamedGeometry> named_caches() const;
  /// Offset of an output's only row in the arena.
  size_t output_at(size_t output) const;

  /// Writes what to run for a call of `rows` tokens at `start_pos`, in order.
  /// \param dispatches cleared first; its memory is used again.
  void write(size_t rows, size_t start_pos, std::vector<Dispatch>* dispatches) const;

 private:
  friend class Writer;

  explicit Plan(const cpu::Program& program) : program_(&program) {}
  Status check() const;
  Status check_ops() const;
  void place();

  const cpu::Program* program_;
  std::vector<cpu::CacheGeometry> caches_;
  size_t most_tokens_ = 0;
  size_t chunk_rows_ = 0;
  size_t arena_bytes_ = 0;
  // Offsets into the arena.
  std::vector<size_t> slots_;
  size_t quantized_ = 0, scales_ = 0, normed_ = 0, partials_ = 0;
};

}  // namespace thimble::metal
