#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "answer/sampler.h"
#include "core/status.h"
#include "draft/call_costs.h"

namespace thimble {

/// Drafted tokens of a sequence in a call; with the token before them as many rows as a call can
/// take back of any model, and as a product with the weights takes at the cost of little more than
/// one.
inline constexpr size_t kMostDraft = 7;

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

  /// A drafter of the same kind for another text, which knows nothing of this one's; null if it
  /// would need as much memory as a model.
  virtual std::unique_ptr<Drafter> another() const = 0;
};

}  // namespace thimble
