#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace thimble::bench {

/// A line of standard input: a word and whole numbers above or equal to 0, as "decode 1024 16".
struct Command {
  std::string name;
  std::vector<int64_t> numbers;

  /// Splits a line. The error names what is not such a number.
  static Result<Command> parse(const std::string& line);

  /// Whether it is `wanted` and has that many numbers.
  bool is(const char* command_name, size_t count) const {
    return name == command_name && numbers.size() == count;
  }
};

/// A measured value under its name, as JSON: {"name": 1.25}.
std::string to_json(const char* name, double value);

}  // namespace thimble::bench
