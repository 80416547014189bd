#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "delegate/program/program.h"

namespace thimble::cpu {

/// Far above any model, far below what would overflow a size.
constexpr size_t kMostHeads = size_t{1} << 12;

/// Checks what the numbers of a program refer to, collects the first thing wrong, and sets what
/// Program derives from them. Each function returns whether all was right so far.
class Checker {
 public:
  explicit Checker(Program* program);

  Status check_all();

  const Program& program() const { return program_; }
  size_t width(uint32_t slot) const { return program_.slots[slot].width; }
  /// The op before the one that is checked, or null.
  const Op* before() const { return before_; }

  /// Notes what is wrong unless it is right.
  bool check(bool right, const std::string& what);

  bool has_slot(uint32_t slot);
  /// Whether the slot exists and is `width` wide.
  bool has_slot(uint32_t slot, size_t width);
  /// Whether the slot exists and has `count` columns from `offset` on.
  bool has_columns(uint32_t slot, size_t offset, size_t count);
  /// Whether the rows of a slot that exists are so many equal heads.
  bool has_heads(uint32_t slot, size_t count);
  bool has_weight(uint32_t weight);
  bool has_floats(const Floats& floats, size_t length);
  bool has_optional_floats(const Floats& floats, size_t length);
  bool has_eps(float eps);
  bool has_activation(kernels::Function function);
  /// Whether the cache exists and no op before has it.
  bool takes_cache(uint32_t cache);

  /// The op embeds tokens below `count`.
  void takes_tokens(size_t count);
  /// The op has what it needs for the positions below `count`.
  void takes_positions(size_t count);
  /// The slot holds one row.
  void leaves_one_row(uint32_t slot);
  /// The output holds as many rows as the inputs: one, or all of a call.
  void has_rows_of(std::initializer_list<uint32_t> inputs, uint32_t output);

 private:
  void check_tables();
  void check_weight(const Weight& weight);
  void check_cache(const CacheShape& cache);
  void check_arguments();

  Program& program_;
  const Op* before_ = nullptr;
  std::vector<bool> owners_;  ///< of the caches: whether an op has it
  std::string where_;
  std::string wrong_;
};

}  // namespace thimble::cpu
