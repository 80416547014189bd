#pragma once

#include <vector>

#include "constraint/grammar.h"
#include "constraint/program.h"
#include "constraint/text_automaton.h"
#include "core/status.h"

namespace thimble {

/// The texts that all of some programs match, as a finite automaton. Fails, with what follows a
/// subject, if that takes more than 60,000 states, or if the programs nest without end.
Result<Grammar::Node> intersection(std::vector<Program> programs, Grammar* grammar);

/// The texts that all parts match which are not excluded, and no excluded one: see intersect().
Result<Grammar::Node> difference(std::vector<AutomatonPart> parts, Grammar* grammar);

/// The texts of an automaton, without the bytes of `erased`, of which none leads back to where it
/// came from.
Grammar::Node text_node(const TextAutomaton& automaton, const ByteSet& erased, Grammar* grammar);

}  // namespace thimble
