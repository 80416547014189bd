#include "sound/waveform.h"

#include <cmath>

#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1, kStreamVersion = 2;
constexpr double kFrameEps = 1e-6;
constexpr size_t kMostSamples = size_t{1} << 26;  // of a window, more than any model reads

enum Field {
  kVersionField,
  kSamplingRate,
  kRow,
  kLeast,
  kMost,
  kFrame,
  kScale,
  kBefore,
  kBehind,
  kPositions
};

}  // namespace

Result<WaveformSettings> WaveformSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THWF");
  const Status damaged =
      Status::error("the settings of raw sound are damaged: export the model again");
  if (!table.valid()) return damaged;
  const auto given = table.scalar<uint32_t>(kVersionField);
  const bool streams = given == kStreamVersion;
  const Status version =
      check_settings_version("raw sound", given, streams ? kStreamVersion : kVersion);
  if (!version.ok()) return version;
  WaveformSettings settings;
  settings.sampling_rate = table.scalar<int32_t>(kSamplingRate);
  settings.row = table.scalar<uint32_t>(kRow);
  settings.least = table.scalar<uint32_t>(kLeast);
  settings.most = table.scalar<uint32_t>(kMost);
  if (settings.sampling_rate < 1 || settings.row < 1 || settings.row > kMostSamples ||
      settings.least < 1 || settings.least > settings.most ||
      settings.most > kMostSamples / settings.row) {
    return damaged;
  }
  if (!streams) return settings;
  settings.frame = table.scalar<uint32_t>(kFrame);
  settings.scale = table.scalar<float>(kScale);
  settings.before = table.scalar<uint32_t>(kBefore);
  settings.behind = table.scalar<uint32_t>(kBehind);
  settings.positions = table.vector<float>(kPositions);
  const size_t around = settings.before + settings.behind;
  if (settings.frame < 1 || settings.before < 1 || settings.row % settings.frame != 0 ||
      !std::isfinite(settings.scale) || around >= settings.most || settings.positions.empty() ||
      settings.positions.size() % settings.most != 0 ||
      reinterpret_cast<uintptr_t>(settings.positions.bytes()) % alignof(float) != 0) {
    return damaged;
  }
  return settings;
}

void WaveformSettings::compress(float* samples) const {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < frame; ++i) sum += samples[i];
  const double mean = sum / static_cast<double>(frame);
  for (size_t i = 0; i < frame; ++i) squares += (samples[i] - mean) * (samples[i] - mean);
  const double root = std::sqrt(squares / static_cast<double>(frame) + kFrameEps);
  for (size_t i = 0; i < frame; ++i) {
    samples[i] = static_cast<float>(std::asinh(scale * (samples[i] - mean) / root));
  }
}

}  // namespace thimble
