#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "hear/transcription_settings.h"
#include "hear/window_writer.h"
#include "tensors/tensor_program.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// Writes the texts of windows as connectionist temporal classification has them: the likeliest
/// token of each state, once where states that follow each other have the same, but the blank.
class CtcWriter : public WindowWriter {
 public:
  /// Loads the method `encoder` of an open program. All must outlive it.
  static Result<std::unique_ptr<CtcWriter>> load(TensorProgram& program, const Tokenizer& tokenizer,
                                                 const TranscriptionSettings& settings);

  /// What the encoder takes.
  const TensorSpec& input() const { return encoder_->inputs[0]; }

  size_t step_frames() const override;
  bool ends_windows() const override { return false; }
  bool is_text(int32_t) const override { return true; }
  Status check(const TranscribeOptions& options, size_t frames) const override;
  Status begin(const TranscribeOptions& options) override;
  Status write(const std::vector<float>& numbers, size_t rows, std::string* language,
               std::vector<int32_t>* tokens, TextScores* scores) override;
  /// Cut at pauses between words.
  std::vector<TimedPart> parts(const std::vector<int32_t>& tokens, size_t steps,
                               size_t* used) const override;
  std::vector<TokenTime> token_times(size_t tokens, size_t steps) const override;
  std::string text_of(const std::vector<int32_t>& tokens, size_t first, size_t last) const override;

 private:
  CtcWriter(TensorProgram& program, const MethodSignature* encoder, const Tokenizer& tokenizer,
            int32_t blank)
      : program_(program), encoder_(encoder), tokenizer_(tokenizer), blank_(blank) {}

  TensorProgram& program_;
  const MethodSignature* const encoder_;
  const Tokenizer& tokenizer_;
  const int32_t blank_;
  std::vector<TokenTime> times_;  ///< of the window's tokens
};

}  // namespace thimble
