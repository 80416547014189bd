#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "constraint/code_points.h"
#include "constraint/grammar.h"
#include "core/status.h"

namespace thimble {

/// How a character of a set is written in a grammar, for example in a JSON string.
using CharacterNode = std::function<Grammar::Node(Grammar* grammar, const CodePoints& points)>;

/// The texts that a regular expression matches as a whole, or, with `search`, in which it matches
/// somewhere. An anchor that is not at the beginning or the end of the expression, or of one of its
/// choices, is refused; so is a lookahead behind which another group goes on.
Result<Grammar::Node> regex_node(std::string_view regex, bool search, Grammar* grammar,
                                 const CharacterNode& character);

/// Numbers of characters.
struct LengthRange {
  uint64_t min = 0, max = Grammar::kUnlimited;
};

/// How long the texts of regex_node() are, within a range that may be wider.
Result<LengthRange> regex_lengths(std::string_view regex, bool search);

/// The texts in UTF-8 that a regular expression matches as a whole.
Result<Grammar::Node> parse_regex(std::string_view regex, Grammar* grammar);

}  // namespace thimble
