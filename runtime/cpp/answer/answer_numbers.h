#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "answer/generate_options.h"
#include "core/status.h"

namespace thimble {

/// A numeric option of an answer. Its default is what a new GenerateOptions has.
struct AnswerNumber {
  using Member =
      std::variant<int64_t GenerateOptions::*, int32_t SamplerOptions::*, float SamplerOptions::*,
                   float LogitChangeOptions::*, float DryOptions::*, int32_t DryOptions::*,
                   float MirostatOptions::*, int32_t MirostatOptions::*, int32_t OutputOptions::*,
                   bool OutputOptions::*>;

  const char* name;        ///< in thimble.h, and in Python
  double low, high;        ///< both are allowed
  Member member;           ///< where it is kept, and so of which type it is
  const char* usage = "";  ///< lines of the command line's help; "": told there beside others

  /// As JSON schemas name it: "number", "integer" or "boolean".
  const char* type() const;
  /// The name of the number that gives it its effect by not being 0; null: it has one anyway.
  const char* needs() const;
  double get(const GenerateOptions& options) const;
  void set(GenerateOptions* options, double value) const;

  /// Whether a value is allowed; NaN is not.
  Status check(double value) const;
  Status check(int64_t value) const;
};

/// All of them, in the order of the command line's help.
const std::vector<AnswerNumber>& answer_numbers();

/// A value with all digits of a count, or those of a float.
std::string shown(double value);

/// Null if there is none of that name.
const AnswerNumber* find_answer_number(std::string_view name);

/// Those of named values that are options of an answer and in range: a file may be of a later
/// version.
using NumberValues = std::map<const AnswerNumber*, double>;
NumberValues known_numbers(const std::map<std::string, double>& values);

/// As a JSON object of names and values.
std::string to_json(const NumberValues& values);

/// As a JSON array of objects: name, type, low, high, default and needs.
std::string answer_numbers_json();

}  // namespace thimble
