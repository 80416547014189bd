#pragma once

#include <string_view>

#include "constraint/grammar.h"
#include "core/status.h"

namespace thimble {

/// The strings of a JSON array.
Result<Grammar::Node> parse_choice(std::string_view text, Grammar* grammar);

}  // namespace thimble
