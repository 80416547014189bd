#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/text_scores.h"
#include "hear/timestamps.h"

namespace thimble {

/// How a sound becomes text.
struct TranscribeOptions {
  std::string language;     ///< its code, such as "de"; "": the first window tells
  bool translate = false;   ///< into English
  bool timestamps = false;  ///< of what is said, not of windows alone
  bool words = false;       ///< of each word too; needs timestamps
  std::string prompt;       ///< text that the sound follows: its style and its names are kept
  double temperature = 0;   ///< 0: the likeliest tokens, and higher ones where these fail
  bool fallback = true;     ///< whether they do, where a text repeats itself or is unlikely
  uint64_t seed = 0;        ///< of what is sampled
  const std::atomic<bool>* interrupted = nullptr;  ///< ends the work after the next token
};

/// The steps of a window between which a token was spoken.
struct TokenTime {
  size_t begin, end;
};

/// Writes the texts of windows.
class WindowWriter {
 public:
  virtual ~WindowWriter() = default;

  /// Frames of sound of a step, in which it tells times.
  virtual size_t step_frames() const = 0;
  /// Whether a text with times tells where the next window begins.
  virtual bool ends_windows() const = 0;
  /// Whether a token stands for text.
  virtual bool is_text(int32_t token) const = 0;

  /// Fails if the model does not know the times that are asked for.
  /// \param frames of a window.
  virtual Status check(const TranscribeOptions& options, size_t frames) const = 0;
  /// Begins a sound. Fails if the model does not know what is asked for.
  virtual Status begin(const TranscribeOptions& options) = 0;

  /// Writes the text of a window: none if the model takes it for silence, and is not sure of a
  /// text.
  /// \param numbers [rows][...], as the encoder reads them.
  /// \param language "" until it is known.
  virtual Status write(const std::vector<float>& numbers, size_t rows, std::string* language,
                       std::vector<int32_t>* tokens, TextScores* scores) = 0;

  /// Cuts the text that write() wrote into parts, with times.
  /// \param used how many of the window's steps they have, or were silent.
  virtual std::vector<TimedPart> parts(const std::vector<int32_t>& tokens, size_t steps,
                                       size_t* used) const = 0;
  /// When each token that write() wrote was spoken.
  /// \param steps of the window that have sound.
  virtual std::vector<TokenTime> token_times(size_t tokens, size_t steps) const = 0;

  /// The text of tokens, valid UTF-8, with the space that it begins with.
  virtual std::string text_of(const std::vector<int32_t>& tokens, size_t first,
                              size_t last) const = 0;
};

}  // namespace thimble
