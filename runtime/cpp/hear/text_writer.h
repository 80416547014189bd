#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/text_decoder.h"
#include "hear/timestamps.h"
#include "hear/transcription_settings.h"
#include "tokenizer/tokenizer.h"

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

/// How sure a model is of a window's text.
struct TextScores {
  double temperature = 0;        ///< at which it was written
  double avg_logprob = 0;        ///< of its tokens, and of the one that ends it
  double compression_ratio = 0;  ///< high if it repeats itself
  double no_speech_prob = 0;     ///< that the window is silence
};

/// Writes the texts of windows that a decoder has read.
class TextWriter {
 public:
  TextWriter(TextDecoder& decoder, const Tokenizer& tokenizer,
             const TranscriptionSettings& settings, const Timestamps& timestamps)
      : decoder_(decoder), tokenizer_(tokenizer), settings_(settings), timestamps_(timestamps) {}

  /// Begins a sound. Fails if the model does not know what is asked for.
  Status begin(const TranscribeOptions& options);

  /// Writes the text of the window that the decoder has read: none if the model takes it for
  /// silence, and is not sure of a text.
  /// \param language "" until it is known.
  Status write(std::string* language, std::vector<int32_t>* tokens, TextScores* scores);

  /// At which step of the window each token that write() wrote ended, and the next one began.
  /// \param steps of the window that have sound.
  std::vector<size_t> token_ends(size_t tokens, size_t steps) const;

  /// The text of tokens, valid UTF-8, with the space that it begins with.
  std::string text_of(const std::vector<int32_t>& tokens, size_t first, size_t last) const;

 private:
  Status detect(std::string* language);
  /// Reads what precedes every text; `logits_` are then those of its first token.
  Status read_prompt(const std::string& language, TextScores* scores);
  /// Writes a text behind it.
  Status attempt(std::vector<int32_t>* tokens, TextScores* scores);
  void forbid(const std::vector<int32_t>& text, std::vector<float>* logits) const;
  int32_t choose(const std::vector<float>& logits, double temperature);
  bool interrupted() const { return options_.interrupted != nullptr && *options_.interrupted; }

  TextDecoder& decoder_;
  const Tokenizer& tokenizer_;
  const TranscriptionSettings& settings_;
  const Timestamps& timestamps_;
  TranscribeOptions options_;
  std::vector<int32_t> before_;  ///< the tokens of the prompt, with the one that begins them
  std::vector<float> logits_;
  size_t prompt_size_ = 0;
  std::mt19937_64 random_;
};

}  // namespace thimble
