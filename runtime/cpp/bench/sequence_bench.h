#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "runner/runner.h"

namespace thimble::bench {

/// Seconds that an Engine takes for `count` tokens of the answer to each of several prompts, all at
/// work in every call: chosen, as text, without the token that begins each answer. Tokens that end
/// an answer are banned.
Result<double> time_sequences(const Runner& runner,
                              const std::vector<std::vector<int32_t>>& prompts, int64_t count);

}  // namespace thimble::bench
