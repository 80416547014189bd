#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "runner/call_costs.h"
#include "runner/sampler.h"

namespace thimble {

/// Guesses the tokens that come next, for the model to verify in one call (Leviathan et al., 2023,
/// "Fast Inference from Transformers via Speculative Decoding"). A guess never changes the text,
/// because a token is always chosen by the model's own logits; where they agree, a call is saved.
class Drafter {
 public:
  virtual ~Drafter() = default;

  /// As many tokens as are worth verifying, up to `most`, that may follow `tokens`: all of the text
  /// so far. What was guessed before is compared with it.
  /// \param sampler how the model's tokens are chosen.
  virtual Result<std::vector<int32_t>> propose(const std::vector<int32_t>& tokens, size_t most,
                                               const CallCosts& costs, const Sampler& sampler) = 0;
};

}  // namespace thimble
