#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "constraint/grammar.h"

namespace thimble {

/// A decimal number, exact.
struct Decimal {
  bool negative = false;
  std::string integer;   ///< digits without leading zeros, at least one
  std::string fraction;  ///< digits without trailing zeros

  bool is_zero() const { return integer == "0" && fraction.empty(); }
  Decimal opposite() const { return {!negative && !is_zero(), integer, fraction}; }
};

/// Reads a JSON number; none if it has more than 400 digits before or after the point.
std::optional<Decimal> parse_decimal(std::string_view text);

/// Negative, 0 or positive as `a` is less than, equal to or greater than `b`.
int compare(const Decimal& a, const Decimal& b);

/// An end of a range of numbers.
struct Bound {
  Decimal value;
  bool exclusive = false;
};

/// The numbers of a range, written as JSON without an exponent and, if `integer`, without a point.
/// Zero has no sign.
Grammar::Node decimal_range(Grammar* grammar, const std::optional<Bound>& min,
                            const std::optional<Bound>& max, bool integer);

}  // namespace thimble
