#pragma once

#include <string_view>

#include "constraint/grammar.h"
#include "core/status.h"

namespace thimble {

/// The texts of the rule "root" of a grammar in GBNF, llama.cpp's notation.
Result<Grammar::Node> parse_gbnf(std::string_view text, Grammar* grammar);

}  // namespace thimble
