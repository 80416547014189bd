#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/status.h"
#include "delegate/program/call.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"

namespace thimble::cpu {

/// Replaces the call's segment, as its inputs describe it, by the requested one, if any; without a
/// request, it uses the current cache.
Status choose_cache(const Program& program, const Session& session,
                    const std::optional<thimble_segment>& asked, Call* call);

/// Whether a segment is possible in a cache that holds `length` positions.
Status check_call_rows(const Program& program, size_t length, const Segment& segment);

/// Whether the program embeds all of a call's tokens.
Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows);

}  // namespace thimble::cpu
