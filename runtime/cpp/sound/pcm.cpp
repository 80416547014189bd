#include "sound/pcm.h"

#include <algorithm>
#include <cstring>

namespace thimble {
namespace {

template <typename T>
T load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

double decode(SampleType type, const uint8_t* bytes) {
  switch (type) {
    case SampleType::kUint8:
      return (bytes[0] - 128) / 128.0;
    case SampleType::kInt16:
      return load<int16_t>(bytes) / 32768.0;
    case SampleType::kInt24: {
      const uint32_t high =
          uint32_t{bytes[0]} << 8 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 24;
      return static_cast<int32_t>(high) / 2147483648.0;
    }
    case SampleType::kInt32:
      return load<int32_t>(bytes) / 2147483648.0;
    case SampleType::kFloat32:
      return load<float>(bytes);
    case SampleType::kFloat64:
      return load<double>(bytes);
  }
  return 0;
}

}  // namespace

size_t size_of(SampleType type) {
  switch (type) {
    case SampleType::kUint8:
      return 1;
    case SampleType::kInt16:
      return 2;
    case SampleType::kInt24:
      return 3;
    case SampleType::kInt32:
    case SampleType::kFloat32:
      return 4;
    case SampleType::kFloat64:
      return 8;
  }
  return 0;
}

void Pcm::read_mono(int64_t first, size_t count, float* samples) const {
  const auto end = static_cast<int64_t>(frames);
  const int64_t last = first + static_cast<int64_t>(count);
  const int64_t from = std::clamp<int64_t>(first, 0, end),
                to = std::clamp<int64_t>(last, from, end);
  std::fill_n(samples, count, 0.0f);
  const size_t size = size_of(type);
  const uint8_t* bytes = data + static_cast<size_t>(from) * static_cast<size_t>(channels) * size;
  for (int64_t frame = from; frame < to; ++frame) {
    double sum = 0;
    for (int32_t channel = 0; channel < channels; ++channel, bytes += size) {
      sum += decode(type, bytes);
    }
    samples[frame - first] = static_cast<float>(sum / channels);
  }
}

}  // namespace thimble
