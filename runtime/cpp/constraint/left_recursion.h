#pragma once

#include <cstdint>
#include <vector>

#include "constraint/program.h"
#include "core/status.h"

namespace thimble {

/// Orders rules by which may call which before a byte was taken (Program::ranks). If one can call
/// itself so, the error is its number.
Result<std::vector<uint32_t>> rank_rules(const Program& program);

}  // namespace thimble
