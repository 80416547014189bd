#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "answer/sampler.h"
#include "answer/text_output.h"
#include "constraint/constraint.h"

namespace thimble {

/// How an answer is chosen, and where it ends.
struct GenerateOptions {
  int64_t max_new_tokens = 0;  ///< 0: until the model ends or the context is full
  SamplerOptions sampler;
  OutputOptions output;
  Constraint* constraint = nullptr;  ///< of this model's vocabulary; null: any text
  std::string prediction;  ///< what the answer may repeat: an engine verifies guesses from it
  const std::atomic<bool>* interrupted = nullptr;  ///< checked between calls of the model
};

}  // namespace thimble
