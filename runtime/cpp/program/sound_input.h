#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/status.h"
#include "sound/pcm.h"

namespace thimble {

/// Standard input as sound.
class SoundInput {
 public:
  /// Reads what begins it, and no more.
  /// \param raw_rate of samples without a header; 0: it has one.
  Status begin(int32_t raw_rate);

  /// How its samples are stored; nothing: it must be read as a whole to know.
  const std::optional<Pcm>& form() const { return form_; }

  /// Reads a tenth of a second, or what is left; empty behind the last samples. Needs form().
  std::vector<uint8_t> next();

  /// Reads all of its bytes, with those that begin it; fails if they are too many.
  Result<std::vector<uint8_t>> all();

 private:
  /// Reads more behind what begins it; returns whether there was more.
  bool read_more(size_t size);

  std::optional<Pcm> form_;
  std::vector<uint8_t> head_;
  size_t at_ = 0;               ///< of its first sample that next() has not returned
  uint64_t left_ = UINT64_MAX;  ///< bytes of samples
};

}  // namespace thimble
