#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/sound_reader.h"
#include "hear/speech_detector.h"
#include "hear/text_decoder.h"
#include "hear/timestamps.h"
#include "hear/transcription_settings.h"
#include "hear/window_writer.h"
#include "tensors/tensor_program.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

class TextWriter;

/// A word, and when it was spoken.
struct SpokenWord {
  double begin_s = 0, end_s = 0;  ///< of the sound
  std::string text;               ///< valid UTF-8, with the space that it begins with
};

/// A part of a sound's text: a window's or, with timestamps, what is said between two times.
struct Segment {
  double begin_s = 0, end_s = 0;  ///< of the sound
  double window_s = 0;            ///< where the window began that it is of
  std::string text;               ///< valid UTF-8, with the space that it begins with
  std::vector<int32_t> tokens;    ///< with those of times
  std::vector<SpokenWord> words;  ///< if they were asked for
  TextScores scores;              ///< of all of its window's text
};

/// What is told while a sound is transcribed.
struct TranscribeEvents {
  std::function<bool(const Segment&)> on_segment;  ///< false ends the work
  std::function<void(double)> on_progress;         ///< seconds of the sound that are done; may be
                                                   ///< null
};

/// A whole sound's text, without its segments'.
struct Transcript {
  std::string language;  ///< "": the model knows one, which its file does not name
  int64_t tokens = 0;
};

/// A loaded file of a model that hears.
class Transcriber {
 public:
  /// Loads the program of an open file; the error of one that is not.
  static Result<std::unique_ptr<Transcriber>> load(Result<PteFile> file,
                                                   const LoadOptions& options);

  TensorProgram& program() { return *program_; }
  /// None: the model knows one.
  const std::vector<Language>& languages() const { return settings_.languages; }
  /// Whether the model reads sound as it arrives (transcript_stream.h).
  bool streams() const { return reader_->stream() != nullptr; }
  /// Fails if the model does not know the language, or has one and cannot translate.
  Status check(const TranscribeOptions& options) const;

  /// Writes a sound's text. A sound that is longer than a window is cut where it is quietest in the
  /// last seconds of each or, with timestamps, where the last part of its text ended. If the file
  /// has a detector of speech, windows begin with speech and end in pauses. Memory does not grow
  /// with its length.
  Result<Transcript> transcribe(const Pcm& pcm, const TranscribeOptions& options,
                                const TranscribeEvents& events);

 private:
  friend class TranscriptStream;

  explicit Transcriber(std::unique_ptr<TensorProgram> program) : program_(std::move(program)) {}
  Status load_settings();
  Status load_ctc();
  Status load_decoder();
  /// Fails if the encoder does not read what the reader returns.
  Status check_sound(const TensorSpec& input) const;
  /// Frames to transcribe.
  struct Window {
    size_t begin, count;
    bool goes_on;  ///< the sound does, without a pause; it may then be cut
  };
  /// The next one at or behind a frame; of no frames if there is nothing more to hear.
  Result<Window> next_window(size_t begin, const std::function<bool()>& interrupted);
  /// What was written of a window.
  struct WindowText {
    size_t begin, count;  ///< frames
    std::vector<int32_t> tokens;
    std::vector<TokenTime> times;  ///< of the tokens; none: words have no times
    bool spaced;                   ///< words begin with a space
  };
  /// Its segments, and how many of its frames they have.
  std::vector<Segment> segments_of(const WindowText& text, bool timestamps, size_t* used) const;
  std::vector<SpokenWord> words_of(const WindowText& text, const TimedPart& part) const;
  double frame_s() const;
  static Status at_work();
  /// Of the sound, at a step behind a frame.
  double seconds(size_t frame, size_t step) const;

  const std::unique_ptr<TensorProgram> program_;
  std::unique_ptr<TextDecoder> decoder_;  ///< null: there is none
  std::unique_ptr<SoundReader> reader_;
  std::unique_ptr<SpeechDetector> detector_;  ///< null: there is none
  std::unique_ptr<Tokenizer> tokenizer_;
  TranscriptionSettings settings_;
  std::unique_ptr<Timestamps> timestamps_;
  std::unique_ptr<WindowWriter> writer_;
  TextWriter* text_writer_ = nullptr;  ///< it, if there is a decoder
  bool streaming_ = false;             ///< a TranscriptStream has the decoder
};

}  // namespace thimble
