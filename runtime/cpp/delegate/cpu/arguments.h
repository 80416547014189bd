#pragma once

#include <executorch/runtime/backend/interface.h>

#include <memory>

#include "core/status.h"
#include "delegate/program/call.h"
#include "delegate/program/program.h"
#include "delegate/session/session_state.h"

/// \file
/// Between ExecuTorch's values and a call of a delegate that runs op lists.

namespace thimble::cpu {

/// Logs the sentence; ExecuTorch itself passes on only a code.
executorch::runtime::Error fail(executorch::runtime::Error code, const Status& status);

/// The session that THIMBLE_SESSION_OPTION names at load, or a new one.
Result<std::shared_ptr<Session>> choose_session(executorch::runtime::BackendInitContext& context,
                                                int32_t default_threads);

/// Reads the inputs into `call`; each that has rows must have the same number.
Status read_inputs(const Program& program,
                   executorch::runtime::Span<executorch::runtime::EValue*> args, Call* call);

/// Gives the outputs their shapes, and `call` their memory.
Status shape_outputs(const Program& program,
                     executorch::runtime::Span<executorch::runtime::EValue*> args, Call* call);

/// The tracer, if its level is to record every op; else null, and nothing is timed.
executorch::runtime::EventTracer* recorder_of(executorch::runtime::EventTracer* tracer);

}  // namespace thimble::cpu
