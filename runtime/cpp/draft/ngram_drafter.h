#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "draft/draft_depth.h"
#include "draft/drafter.h"

namespace thimble {

/// Guesses that a text repeats itself: what followed the last tokens where they stood before
/// (Saxena, 2023, "Prompt Lookup Decoding"). It costs next to nothing.
class NgramDrafter final : public Drafter {
 public:
  /// \param source tokens that the text may repeat, as if they stood before it.
  explicit NgramDrafter(std::vector<int32_t> source = {});

  Result<std::vector<int32_t>> propose(const std::vector<int32_t>& tokens, size_t most,
                                       const CallCosts& costs, const Sampler& sampler) override;
  std::unique_ptr<Drafter> another() const override { return std::make_unique<NgramDrafter>(); }

 private:
  static constexpr size_t kShortest = 2, kLongest = 5;  ///< sequences that are looked up

  /// Takes over the text, and learns from its new tokens.
  void follow(const std::vector<int32_t>& tokens);
  void add(int32_t token);
  /// The number of the `count` tokens before `end`.
  uint64_t key(size_t count, size_t end) const;
  /// The longest sequence at the end of the text that stood before; 0: none. `next` gets the place
  /// after it there.
  size_t find(size_t* next) const;

  const std::vector<int32_t> source_;
  std::vector<int32_t> text_;  ///< behind the source
  /// For each length: where a sequence stood last, as the place after it.
  std::array<std::unordered_map<uint64_t, size_t>, kLongest + 1> places_;
  std::array<DraftDepth, kLongest + 1> depths_ = {
      {{0, 1}, {0, 1}, {0.2, 8}, {0.4, 4}, {0.6, 4}, {0.7, 4}}};
  size_t guessed_by_ = 0;  ///< length of the sequence of the last guess
  size_t guessed_at_ = 0;  ///< in the text without the source
  std::vector<int32_t> guess_;
};

}  // namespace thimble
