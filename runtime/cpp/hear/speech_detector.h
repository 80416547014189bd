#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/status.h"
#include "sound/resampled_sound.h"
#include "tensors/tensor_program.h"

namespace thimble {

/// Part of a sound, in samples.
struct SoundPart {
  uint64_t begin = 0, end = 0;
  bool goes_on = false;  ///< whether speech does, behind its end

  bool empty() const { return begin == end; }
};

/// Where a sound has speech, by the method `speech_detector` of a file: Silero's net, with the
/// rules of silero-vad's get_speech_timestamps() and its default limits.
class SpeechDetector {
 public:
  /// The one of a file; null: it has none.
  /// \param rate samples per second that the file's model reads.
  static Result<std::unique_ptr<SpeechDetector>> load(TensorProgram& program, int32_t rate);

  /// Begins a sound, which must stay until the next one.
  void begin(const ResampledSound& sound);

  /// The next part to transcribe: it begins with the first speech at or behind a sample, and ends
  /// in the longest pause of its second half, or else the last one; in that of its last speech if
  /// the sound has no more. Each call begins where the one before did, or behind that.
  /// \param most samples of it.
  /// \param interrupted ends the search.
  /// \returns an empty part behind the last speech.
  Result<SoundPart> next(uint64_t begin, uint64_t most, const std::function<bool()>& interrupted);

 private:
  SpeechDetector(TensorProgram& program, const MethodSignature* method)
      : program_(program), method_(method) {}
  bool fits() const;
  size_t rows() const { return static_cast<size_t>(method_->inputs[0].sizes[1].least); }
  bool has_ended() const { return heard_ >= sound_->size(); }
  /// Hears the next rows.
  Status hear();
  /// Takes the probability that the next row has speech.
  void add(float probability);
  void end_speech(uint64_t end);
  /// The parts with speech in what was heard; of one that goes on, what there is.
  std::vector<SoundPart> known() const;

  TensorProgram& program_;
  const MethodSignature* const method_;
  const ResampledSound* sound_ = nullptr;
  std::vector<float> rows_, hidden_, memory_;
  uint64_t heard_ = 0;             ///< samples
  std::vector<SoundPart> spoken_;  ///< in what was heard, but for one that goes on
  bool speaking_ = false;          ///< it does
  uint64_t since_ = 0;             ///< where it began
  uint64_t quiet_ = UINT64_MAX;    ///< since when it is quiet, but perhaps not ended
};

}  // namespace thimble
