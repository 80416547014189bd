#pragma once

#include <cstddef>
#include <cstdint>

#include "core/flatbuffer.h"
#include "core/status.h"

namespace thimble {

/// How a model reads raw sound (exporter/schemas/waveform.fbs).
struct WaveformSettings {
  /// Fails with a sentence if the bytes, which must stay, are damaged, or of another kind or
  /// version.
  static Result<WaveformSettings> load(const uint8_t* data, size_t size);

  int32_t sampling_rate = 0;
  size_t row = 0;              ///< samples of a row, in which the model reads them
  size_t least = 0, most = 0;  ///< rows that it reads at once

  /// Of a model that reads sound as it arrives, and makes a state of each row.
  bool streams() const { return frame > 0; }
  size_t frame = 0;                   ///< samples of one, of which it reads what compress() makes
  float scale = 0;                    ///< of them before asinh
  size_t before = 0, behind = 0;      ///< rows around its own that a state depends on
  FlatbufferVector<float> positions;  ///< what is added to the states, [most][width]

  /// Makes of a frame's samples, in place, what the model reads: without their mean, over their
  /// root mean square, and loud ones flattened.
  void compress(float* samples) const;
};

}  // namespace thimble
