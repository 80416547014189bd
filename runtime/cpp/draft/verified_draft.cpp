#include "draft/verified_draft.h"

#include <algorithm>
#include <utility>

namespace thimble {

void VerifiedDraft::start(std::vector<int32_t> draft, const float* logits, size_t width) {
  draft_ = std::move(draft);
  used_ = 0;
  logits_ = logits;
  width_ = width;
}

const float* VerifiedDraft::follow(const std::vector<int32_t>& chosen) {
  if (chosen.empty() || chosen.size() > left() ||
      !std::equal(chosen.begin(), chosen.end(),
                  draft_.begin() + static_cast<std::ptrdiff_t>(used_))) {
    return nullptr;
  }
  used_ += chosen.size();
  return logits_ + used_ * width_;
}

}  // namespace thimble
