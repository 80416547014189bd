#pragma once

#include <cstdint>
#include <vector>

#include "constraint/grammar.h"

namespace thimble {

/// The surrogates' first code point, and the one behind their last.
inline constexpr uint32_t kSurrogates = 0xD800, kAfterSurrogates = 0xE000;

/// A set of Unicode scalar values: code points without the surrogates.
class CodePoints {
 public:
  struct Range {
    uint32_t first, last;
  };

  CodePoints() = default;
  CodePoints(uint32_t first, uint32_t last) { add(first, last); }
  static CodePoints all() { return CodePoints(0, 0x10FFFF); }

  void add(uint32_t first, uint32_t last) { add({{first, last}}); }
  void add(const CodePoints& other) { add(other.ranges_); }
  void add(const std::vector<Range>& ranges);
  /// All that are not in the set.
  CodePoints complement() const;
  CodePoints intersection(const CodePoints& other) const;
  bool contains(uint32_t point) const;
  /// Ascending, apart from each other.
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

/// One character of a set, in UTF-8.
Grammar::Node utf8_node(Grammar* grammar, const CodePoints& points);

}  // namespace thimble
