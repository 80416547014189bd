#pragma once

#include "constraint/grammar.h"
#include "constraint/program.h"
#include "constraint/regex.h"
#include "core/status.h"

namespace thimble {

/// Where a regular expression has \b or \B, its program has one of these bytes, which no text has.
inline constexpr char kBoundaryMark = '\xFE', kNoBoundaryMark = '\xFD';

/// The texts of a program with marks in which each mark is where it may be, without the marks. A
/// text begins and ends as if other characters than those of words were around it. Fails, with what
/// follows a subject, if that takes too many states.
Result<Grammar::Node> hold_boundaries(Program marked, const CharacterNode& character,
                                      Grammar* grammar);

}  // namespace thimble
