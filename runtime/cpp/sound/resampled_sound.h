#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sound/pcm.h"

namespace thimble {

/// A sound of one channel at another rate, computed where it is read.
///
/// Sample k is the sound at k / rate seconds: band-limited interpolation (J. O. Smith) with a sinc
/// of 64 zero crossings on each side under a Kaiser window of beta 12. The band ends at half of
/// the lower rate: from 48 to 16 kHz, 7.5 kHz stays and 8.5 kHz is gone (0 and -120 dB).
class ResampledSound {
 public:
  /// \param pcm read in place.
  /// \param rate samples per second.
  ResampledSound(const Pcm& pcm, int32_t rate);

  int32_t rate() const { return rate_; }
  /// How many samples there are.
  uint64_t size() const { return size_; }

  /// Reads other frames of the same rate from now on.
  void grow(const Pcm& pcm);
  /// Samples that are the same whatever follows the frames.
  uint64_t settled() const;

  /// Computes samples. Those outside the sound are silence.
  void read(int64_t first, size_t count, float* samples) const;

 private:
  /// What the frames around a sample weigh that lies a part of a frame behind one: those from
  /// reach_ before it to reach_ behind it.
  std::vector<double> weights(double behind) const;
  /// \param frame the last one at or before the sample, with `reach_` more on each side.
  /// \param place its number.
  double interpolate(const float* frame, int64_t place, int64_t sample) const;

  Pcm pcm_;
  const int32_t rate_;
  uint64_t size_;
  double cutoff_ = 1;  ///< of the rate of the frames, by which the filter is stretched
  int64_t reach_ = 0;  ///< frames on each side of a sample that have a part in it
  std::vector<std::vector<double>> phases_;  ///< the weights of each place; none: too many
  std::vector<double> filter_;  ///< the right half of the sinc, kSteps to a zero crossing
};

}  // namespace thimble
