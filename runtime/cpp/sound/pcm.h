#pragma once

#include <cstddef>
#include <cstdint>

namespace thimble {

/// How a sample is stored, little endian. Integers are scaled to -1 .. 1 by their type's range.
enum class SampleType { kUint8, kInt16, kInt24, kInt32, kFloat32, kFloat64 };

/// Bytes of a sample.
size_t size_of(SampleType type);

inline constexpr int32_t kMostChannels = 64, kMostRate = 1000000;

/// Sound as it is stored: frames of one sample for each channel, which someone else keeps.
struct Pcm {
  SampleType type = SampleType::kFloat32;
  int32_t channels = 1;
  int32_t rate = 0;  ///< frames per second
  uint64_t frames = 0;
  const uint8_t* data = nullptr;

  double seconds() const { return static_cast<double>(frames) / rate; }

  /// Decodes frames, each to the mean of its channels. Those outside the sound are silence.
  /// \param first of the frames; may be negative.
  void read_mono(int64_t first, size_t count, float* samples) const;
};

}  // namespace thimble
