#include "sound/waveform.h"

#include "core/flatbuffer.h"
#include "core/settings_version.h"

namespace thimble {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kMostSamples = size_t{1} << 26;  // of a window, more than any model reads

enum Field { kVersionField, kSamplingRate, kRow, kLeast, kMost };

}  // namespace

Result<WaveformSettings> WaveformSettings::load(const uint8_t* data, size_t size) {
  const FlatbufferTable table = flatbuffer_root(data, size, "THWF");
  const Status damaged =
      Status::error("the settings of raw sound are damaged: export the model again");
  if (!table.valid()) return damaged;
  const Status version =
      check_settings_version("raw sound", table.scalar<uint32_t>(kVersionField), kVersion);
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
  return settings;
}

}  // namespace thimble
