#pragma once

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace thimble {

/// How a model reads raw sound (exporter/schemas/waveform.fbs).
struct WaveformSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<WaveformSettings> load(const uint8_t* data, size_t size);

  int32_t sampling_rate = 0;
  size_t row = 0;              ///< samples of a row, in which the model reads them
  size_t least = 0, most = 0;  ///< rows that it reads at once
};

}  // namespace thimble
