#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/transcriber.h"
#include "sound/live_sound.h"

namespace thimble {

/// Writes the text of a sound while it arrives, of a model that reads it so.
///
/// After each step, the encoder reads the rows that came, with those around them that their states
/// depend on, and the decoder writes the window's text anew: the one that it would write if the
/// sound ended there. It reads several tokens at once of what it wrote before, as far as that
/// stays. The texts of ended windows are written token by token, so that rounding is the same: they
/// are those of Transcriber::transcribe().
class TranscriptStream {
 public:
  /// Takes a window's text so far; or its last one. Returning false ends the work.
  using OnPart = std::function<bool(const Segment& segment, bool is_final)>;

  /// Begins a sound, and keeps the transcriber from other work until it is deleted. Fails if the
  /// model reads whole sounds alone, does not know what is asked for, or is at work.
  /// \param form how samples are stored; its own frames have no effect.
  /// \param step_s seconds of sound from one text to the next.
  static Result<std::unique_ptr<TranscriptStream>> begin(Transcriber& transcriber, const Pcm& form,
                                                         const TranscribeOptions& options,
                                                         double step_s, OnPart on_part);
  ~TranscriptStream();

  /// Takes the next frames, which need not stay.
  Status feed(const void* samples, uint64_t frames);
  /// Ends the sound: writes the rest of its text.
  Status finish();

  /// Of all that came.
  double seconds() const { return live_.seconds(); }
  /// Tokens of the texts of ended windows.
  int64_t tokens() const { return tokens_; }

 private:
  TranscriptStream(Transcriber& transcriber, const Pcm& form, const TranscribeOptions& options,
                   double step_s, OnPart on_part);
  const WaveformSettings& settings() const { return *transcriber_.reader_->stream(); }
  /// Looks at rows that have not been looked at.
  Status look(size_t rows);
  /// Reads the window's first rows, and writes their text.
  Status hear(size_t count, bool is_final);
  Status encode(size_t count, bool is_final);
  Status write(size_t count, bool is_final);
  /// Ends a full window where it is quiet.
  Status cut();
  void next_window(size_t begin);
  bool ended() const;

  Transcriber& transcriber_;
  const TranscribeOptions options_;
  const OnPart on_part_;
  const size_t step_;  ///< rows
  LiveSound live_;
  size_t looked_ = 0;    ///< rows of the sound
  size_t begin_ = 0;     ///< of the window, in them
  size_t heard_ = 0;     ///< rows of the window whose text was written
  size_t complete_ = 0;  ///< its first states that no further row changes
  bool has_sound_ = false;
  std::string shown_;             ///< the window's text so far
  std::vector<int32_t> written_;  ///< its tokens
  std::string language_;
  int64_t tokens_ = 0;
  bool stopped_ = false;  ///< by on_part_
};

}  // namespace thimble
