#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "hear/text_decoder.h"
#include "hear/transcription_settings.h"
#include "sound/log_mel.h"
#include "tensors/tensor_program.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// How a sound becomes text.
struct TranscribeOptions {
  std::string language;    ///< its code, such as "de"; "": the first window tells
  bool translate = false;  ///< into English
  const std::atomic<bool>* interrupted = nullptr;  ///< ends the work after the next token
};

/// What was written of a window.
struct WindowText {
  double begin_s = 0, end_s = 0;  ///< of the sound
  std::string text;               ///< valid UTF-8, with the space that it begins with
  std::vector<int32_t> tokens;
};

/// A whole sound's text, without its windows'.
struct Transcript {
  std::string language;  ///< "": the model knows one
  int64_t tokens = 0;
};

/// A loaded file of a model that hears.
class Transcriber {
 public:
  /// Loads the program of an open file; the error of one that is not.
  static Result<std::unique_ptr<Transcriber>> load(Result<PteFile> file,
                                                   const LoadOptions& options);

  TensorProgram& program() { return *program_; }
  /// Fails if the model does not know the language, or has one and cannot translate.
  Status check(const TranscribeOptions& options) const;

  /// Writes a sound's text, likeliest token by token. A sound that is longer than a window is cut
  /// where it is quietest in the last seconds of each; memory does not grow with its length.
  /// \param on_text called with each window's.
  Result<Transcript> transcribe(const Pcm& pcm, const TranscribeOptions& options,
                                const std::function<void(const WindowText&)>& on_text);

 private:
  explicit Transcriber(std::unique_ptr<TensorProgram> program) : program_(std::move(program)) {}
  Status load_settings();
  /// The largest of the logarithms of a sound; fails if one is not finite.
  /// \param part is left with the features of its last window, which may be the only one.
  Result<float> largest(const ResampledSound& sound, std::vector<float>* part) const;
  /// Where a window ends, in frames behind its begin; `features` are its.
  size_t quietest_end(const std::vector<float>& features) const;
  /// Writes a window's text: none if the model takes it for silence, and is not sure of a text.
  Status write(const TranscribeOptions& options, std::string* language, WindowText* window);
  void suppress(bool first, std::vector<float>* logits) const;

  const std::unique_ptr<TensorProgram> program_;
  std::unique_ptr<TextDecoder> decoder_;
  std::unique_ptr<LogMel> log_mel_;
  std::unique_ptr<Tokenizer> tokenizer_;
  TranscriptionSettings settings_;
};

}  // namespace thimble
