#pragma once

#include <executorch/runtime/core/error.h>
#include <executorch/runtime/executor/method_meta.h>

#include <string>

#include "core/status.h"
#include "model/log_capture.h"

namespace thimble {

/// ExecuTorch's error as the end of a sentence.
std::string reason(executorch::runtime::Error error, const LogCapture& log);

/// The same for a model that may be damaged; our own delegates' sentences already tell what to do.
/// \param has_inputs whether inputs that are a caller's may be what is wrong.
std::string advice(executorch::runtime::Error error, const LogCapture& log, bool ours,
                   bool has_inputs);

/// Our delegate that a method runs on; null: none.
const char* own_backend(const executorch::runtime::MethodMeta& meta);

/// Whether one instruction is the whole method: a call of a delegate, if it runs on one.
bool is_one_instruction(const executorch::runtime::MethodMeta& meta);

/// The delegates that a method of a file runs on, by ExecuTorch's names, separated by commas. Fails
/// if this runner does not include one.
Result<std::string> delegates_of(const executorch::runtime::MethodMeta& meta,
                                 const std::string& path);

}  // namespace thimble
