#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "delegate/program.h"

namespace thimble::cpu {

/// Whether a call of `rows` rows at `start_pos` is possible on a cache that holds `length`
/// positions.
Status check_call_rows(const Program& program, size_t length, size_t rows, int64_t start_pos);

/// Whether the program embeds all of a call's tokens.
Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows);

}  // namespace thimble::cpu
