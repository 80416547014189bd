#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "delegate/program/program.h"

namespace thimble::cpu {

/// Far above any model, far below what would overflow a size.
constexpr size_t kMostHeads = size_t{1} << 12;
/// The same of the rows of a segment that is run as a whole.
constexpr size_t kMostSegmentRows = size_t{1} << 17;
/// The same of the rows of a sample, which may be the pixels of a picture.
constexpr size_t kMostSampleRows = size_t{1} << 20;

/// Checks what the numbers of a program refer to, keeps the first error, and sets what Program
/// derives from them. Each function returns whether there was no error so far.
class Checker {
 public:
  explicit Checker(Program* program);

  Status check_all();

  const Program& program() const { return program_; }
  /// Whether every slot has a height; records that an operator of such programs needs it.
  bool is_by_sample();
  size_t height(uint32_t slot) const { return program_.slots[slot].height; }
  size_t width(uint32_t slot) const { return program_.slots[slot].width; }
  /// The op before the one that is checked, or null.
  const Op* before() const { return before_; }

  /// Records what is wrong if the condition is false.
  bool check(bool right, const std::string& what);

  bool has_slot(uint32_t slot);
  /// Whether the slot exists and is `width` wide.
  bool has_slot(uint32_t slot, size_t width);
  /// Whether the slot exists and has `count` columns from `offset` on.
  bool has_columns(uint32_t slot, size_t offset, size_t count);
  /// Whether the rows of an existing slot consist of that many equal heads.
  bool has_heads(uint32_t slot, size_t count);
  bool has_weight(uint32_t weight);
  /// Whether the adapter exists and the rank is possible.
  bool has_adapter(uint32_t adapter, size_t rank);
  bool has_floats(const Floats& floats, size_t length);
  bool has_optional_floats(const Floats& floats, size_t length);
  bool has_eps(float eps);
  /// Whether the columns of a quantized weight may be rotated in blocks of that size; 0: none are.
  bool has_blocks(uint32_t size, const Weight& weight);
  bool has_activation(kernels::Function function);
  /// Whether the cache exists and no earlier op uses it.
  bool takes_cache(uint32_t cache);
  /// Whether the cache exists and an earlier op writes it.
  bool reads_cache(uint32_t cache);
  /// Whether the state exists and no earlier op uses it.
  /// \param more rows that are kept beyond those that the next row reads.
  bool takes_state(uint32_t state, size_t more);
  /// Whether the state exists, no earlier op uses it and it has those matrices.
  bool takes_matrices(uint32_t state, const kernels::DeltaShape& shape);

  /// Records that the op sees so many positions of a cache that exists; 0: all.
  void takes_window(uint32_t cache, size_t window);
  /// Records that the op embeds tokens below `count` into a slot.
  void takes_tokens(size_t count, uint32_t output);
  /// Checks that the op sees no more of a cache that an earlier one writes than that one: all of
  /// it, or a ring's window.
  void reads_window(uint32_t cache, size_t window);
  /// Records that the op supports the positions below `count`.
  void takes_positions(size_t count);
  /// Records that the op works on whole segments.
  void takes_segments();
  /// Records that the op reads `count` numbers of an adapter that exists.
  void takes_halves(uint32_t adapter, uint64_t offset, uint64_t count);
  /// Records that the slot holds only the rows that get logits.
  void leaves_last_only(uint32_t slot);
  /// Records that the slot holds so many rows for each segment; a program by sample says it too.
  void has_height(uint32_t slot, size_t height);
  /// Checks that the rows of the slot have positions below `count`.
  void has_positions(uint32_t slot, size_t count);
  /// Checks that the slot has all rows of each segment.
  void pools(uint32_t slot);
  /// Records that the output has as many rows as the inputs: those that get logits, some for each
  /// segment, or all of a call.
  void has_rows_of(std::initializer_list<uint32_t> inputs, uint32_t output);

 private:
  void check_tables();
  void check_weight(const Weight& weight);
  void check_cache(const CacheShape& cache);
  void check_state(const StateShape& state);
  void check_arguments();

  Program& program_;
  const Op* before_ = nullptr;
  std::vector<bool> owners_;        ///< for each cache: whether an op uses it
  std::vector<bool> state_owners_;  ///< the same for each state
  std::string where_;
  std::string wrong_;
};

}  // namespace thimble::cpu
