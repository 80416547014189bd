#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"
#include "delegate/program/call.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"

namespace thimble::cpu {

/// Replaces the call's segment, as its inputs describe it, by the requested ones, if any; without a
/// request, it uses the current cache.
Status choose_segments(const Program& program, const Session& session, AskedSegments asked,
                       Call* call);

/// Whether the call is one segment that gets the logits of its last row in the program's output.
Status check_one_segment(const Call& call);

/// Whether a segment is possible in a cache that holds `length` positions.
Status check_call_rows(const Program& program, size_t length, const Segment& segment);

/// Whether the program embeds all of a call's tokens.
Status check_call_tokens(const Program& program, const int64_t* tokens, size_t rows);

}  // namespace thimble::cpu
