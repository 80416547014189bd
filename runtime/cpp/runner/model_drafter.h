#pragma once

#include <memory>
#include <string>
#include <vector>

#include "draft/draft_depth.h"
#include "draft/drafter.h"
#include "runner/runner.h"

namespace thimble {

/// Guesses what a smaller model of the same tokenizer says. It samples with the numbers that the
/// model itself will use, so that the two agree more often than by chance.
class ModelDrafter final : public Drafter {
 public:
  /// Loads the smaller model, which must have the tokens of `target`.
  static Result<std::unique_ptr<ModelDrafter>> load(const std::string& path, const Model& target,
                                                    const LoadOptions& options);

  Result<std::vector<int32_t>> propose(const std::vector<int32_t>& tokens, size_t most,
                                       const CallCosts& costs, const Sampler& sampler) override;
  std::unique_ptr<Drafter> another() const override { return nullptr; }

 private:
  explicit ModelDrafter(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}

  std::unique_ptr<Runner> runner_;
  DraftDepth depth_{0.7, 4};
  double call_s_ = 0;  ///< of the smaller model
  size_t guessed_at_ = 0;
  std::vector<int32_t> guess_;
  size_t pause_ = 0;  ///< calls until the next guess, while guesses are not worth it
  size_t last_pause_ = 1;
};

}  // namespace thimble
