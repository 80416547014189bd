#pragma once

#include <vector>

#include "constraint/grammar.h"
#include "constraint/program.h"
#include "core/status.h"

namespace thimble {

/// The texts that all of some programs match, as a finite automaton. Fails, with what follows a
/// subject, if that takes more than 20,000 states, or if the programs nest without end.
Result<Grammar::Node> intersection(std::vector<Program> programs, Grammar* grammar);

}  // namespace thimble
