#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thimble {

/// Rows of logits behind drafted tokens, which are used as long as the answer goes as drafted.
class VerifiedDraft {
 public:
  /// \param logits a row after what comes before the draft, and one after each of its tokens;
  ///   `width` numbers each, valid as long as they are used.
  void start(std::vector<int32_t> draft, const float* logits, size_t width);

  /// The logits after `chosen`, if those tokens were drafted next; else null, and the rest of the
  /// draft is of no use.
  const float* follow(const std::vector<int32_t>& chosen);

  /// The number of drafted tokens that the answer did not follow, or not yet.
  size_t left() const { return draft_.size() - used_; }

 private:
  std::vector<int32_t> draft_;
  size_t used_ = 0;
  const float* logits_ = nullptr;
  size_t width_ = 0;
};

}  // namespace thimble
