#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/text_decoder.h"
#include "hear/timestamps.h"
#include "hear/transcription_settings.h"
#include "hear/window_writer.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// Writes the texts of windows with a decoder, token by token.
class TextWriter : public WindowWriter {
 public:
  static constexpr size_t kFrames = 2;  ///< from one token of time to the next

  TextWriter(TextDecoder& decoder, const Tokenizer& tokenizer,
             const TranscriptionSettings& settings, const Timestamps& timestamps)
      : decoder_(decoder), tokenizer_(tokenizer), settings_(settings), timestamps_(timestamps) {}

  size_t step_frames() const override { return kFrames; }
  bool ends_windows() const override { return true; }
  bool is_text(int32_t token) const override { return token < settings_.end; }
  Status check(const TranscribeOptions& options, size_t frames) const override;

  Status begin(const TranscribeOptions& options) override;
  Status write(const std::vector<float>& numbers, size_t rows, std::string* language,
               std::vector<int32_t>* tokens, TextScores* scores) override;
  /// Writes the text of what the decoder has read.
  /// \param fallback whether one that fails is written again.
  /// \param expected what it may be: the same text, sooner where it is.
  Status write_text(bool fallback, const std::vector<int32_t>& expected, std::string* language,
                    std::vector<int32_t>* tokens, TextScores* scores);
  std::vector<TimedPart> parts(const std::vector<int32_t>& tokens, size_t steps,
                               size_t* used) const override;
  std::vector<TokenTime> token_times(size_t tokens, size_t steps) const override;
  std::string text_of(const std::vector<int32_t>& tokens, size_t first, size_t last) const override;

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
