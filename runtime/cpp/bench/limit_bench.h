#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/command.h"
#include "bench/limits/limits.h"
#include "core/status.h"
#include "platform/pages.h"

namespace thimble::bench {

/// Measures the machine's limits with so many threads. Commands:
///   read BYTES   {"bytes_per_s": ...}: memory of that size read in order, repeatedly, each
///                thread its own part: what a model of that size does for every token
///   multiply     {"operations_per_s": ...}: int8 products in registers, by the fastest unit;
///                0 where there is no probe for this CPU
class LimitBench {
 public:
  explicit LimitBench(int32_t threads) : threads_(threads), limits_(limits()) {}

  /// The first line: threads, and the name of the unit that multiplies.
  std::string describe() const;

  /// Runs one command; returns the line that answers it.
  Result<std::string> run(const Command& command);

 private:
  Result<double> read(size_t bytes);
  double multiply() const;
  Status allocate(size_t size);

  int32_t threads_;
  Limits limits_;
  platform::Pages memory_;
};

}  // namespace thimble::bench
