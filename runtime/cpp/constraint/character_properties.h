#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "constraint/code_points.h"

namespace thimble {

/// The characters of a Unicode property, as \p{...} names it: a general category, short or long,
/// one of kScripts, Any, ASCII or Assigned; with General_Category=, gc=, Script= or sc=, or
/// without. Nothing for another name.
std::optional<CodePoints> characters_of_property(std::string_view name);

/// Which names characters_of_property() knows, for messages.
std::string known_properties();

/// The characters that words are made of: \w.
CodePoints word_characters();
/// ECMA-262's WhiteSpace and LineTerminator: \s.
CodePoints white_space();
CodePoints line_terminators();

}  // namespace thimble
