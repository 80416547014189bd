#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sound/pcm.h"
#include "sound/resampled_sound.h"

namespace thimble {

/// Sound that arrives in pieces, at another rate.
class LiveSound {
 public:
  /// \param form how samples are stored; its own frames have no effect.
  /// \param rate samples per second of sound().
  LiveSound(const Pcm& form, int32_t rate) : pcm_(form), sound_(grown(), rate) {}
  LiveSound(const LiveSound&) = delete;

  void append(const void* samples, uint64_t frames);

  /// What has come and is not forgotten. Its last samples change with the next piece: see
  /// settled().
  const ResampledSound& sound() const { return sound_; }
  /// Samples of sound() that no further piece changes.
  uint64_t settled() const { return sound_.settled(); }

  /// Drops the first seconds: sound() then begins behind them.
  void forget(uint64_t seconds);
  uint64_t forgotten_s() const { return forgotten_s_; }
  /// Of all that came.
  double seconds() const { return static_cast<double>(forgotten_s_) + pcm_.seconds(); }

 private:
  size_t frame_size() const { return static_cast<size_t>(pcm_.channels) * size_of(pcm_.type); }
  /// The frames that there are.
  const Pcm& grown();

  Pcm pcm_;
  std::vector<uint8_t> bytes_;
  ResampledSound sound_;
  uint64_t forgotten_s_ = 0;
};

}  // namespace thimble
