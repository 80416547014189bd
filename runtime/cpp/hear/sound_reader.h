#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "sound/log_mel.h"
#include "sound/resampled_sound.h"
#include "sound/waveform.h"
#include "tensors/tensor_program.h"

namespace thimble {

/// What a model is given of a sound, window by window. A window is so many frames.
class SoundReader {
 public:
  virtual ~SoundReader() = default;

  /// The one that an open program has settings for.
  static Result<std::unique_ptr<SoundReader>> load(TensorProgram& program);

  virtual int32_t rate() const = 0;
  /// Frames that a window has at most, and samples from one frame to the next.
  virtual size_t most() const = 0;
  virtual size_t hop() const = 0;
  double frame_s() const { return static_cast<double>(hop()) / rate(); }
  /// Whether an encoder with such an input reads what encoded() returns.
  virtual bool fits(const TensorSpec& input) const = 0;

  /// Begins a sound, which must outlive its windows: looks at all of it, and fails if a sample is
  /// not a finite number.
  /// \param interrupted ends the search.
  Status begin(const ResampledSound& sound, const std::function<bool()>& interrupted);
  /// Looks at frames that came since: as begin() at all that there were.
  virtual Status look(size_t first, size_t count) = 0;
  /// Frames of the sound; what is behind the spoken ones is silence.
  virtual size_t frames() const = 0;
  virtual size_t spoken() const = 0;

  /// Reads frames, most() at the most.
  virtual void read(size_t first, size_t count) = 0;
  /// Where it is quietest near the end of a full window that was read, in frames.
  size_t quietest_end() const;
  /// Makes the encoder's input of the first `used` frames of what was read; returns whether there
  /// is sound in it.
  /// \param timestamps whether what is behind them is as in transformers.
  virtual bool encode(size_t used, bool timestamps, std::vector<float>* numbers) = 0;
  /// Rows of that input.
  virtual size_t rows() const = 0;
  /// How a model reads sound as it arrives; null: it does not.
  virtual const WaveformSettings* stream() const { return nullptr; }

 protected:
  /// Forgets the sound before.
  virtual void reset(const ResampledSound& sound) = 0;
  /// How loud each frame is that was read.
  virtual std::vector<double> loudness() const = 0;
};

}  // namespace thimble
