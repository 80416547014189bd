#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/status.h"
#include "delegate/program/call.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"

namespace thimble::cpu {

/// Makes the call's segment, as its inputs have it, the one that was asked for, if any: else it is
/// of the current cache.
Status choose_cache(const Program& program, const Session& session,
                    const std::optional<thimble_segment>& asked, Call* call);

/// Whether a segment is possible in a cache that holds `length` positions.
Status check_call_rows(const Program& program, size_t length, const Segment& segment);

/// Whether the program embeds all of a call's tokens.
Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows);

}  // namespace thimble::cpu
