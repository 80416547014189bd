#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/status.h"
#include "hear/transcription_settings.h"
#include "hear/word_times.h"
#include "tensors/tensor_program.h"

namespace thimble {

/// The two methods of a model that hears, and the caches that the decoder reads: keys and values of
/// a window, computed once, and those of the tokens before, one row a step.
class TextDecoder {
 public:
  /// Loads the methods `encoder` and `text_decoder` of an open program, which must outlive it.
  static Result<std::unique_ptr<TextDecoder>> load(TensorProgram& program,
                                                   const TranscriptionSettings& settings);

  /// What encode() takes.
  const TensorSpec& input() const { return encoder_->inputs[0]; }
  size_t vocab_size() const { return static_cast<size_t>(decoder_->outputs[0].sizes[2].least); }
  /// The most tokens of a text.
  size_t max_tokens() const { return max_tokens_; }

  /// What an encoder that has places as an input adds to states, float32 [most][width], which must
  /// stay. Fails if they do not fit it, or it has none.
  Status use_positions(const uint8_t* positions, size_t count);

  /// Reads a window, or more of one; the next token is the first of a text.
  /// \param numbers [rows][...], as input() has them.
  /// \param first of the rows of the window; what was made of those from first + kept on is
  /// dropped.
  /// \param kept how many of these rows' results are dropped, since the window has them.
  Status encode(const std::vector<float>& numbers, size_t rows, size_t first = 0, size_t kept = 0);

  /// Tokens that were read of the window's text.
  size_t size() const { return static_cast<size_t>(position_); }

  /// What the alignment heads attend to in the window's first steps.
  /// \param first of the tokens that were read; `count` of them.
  Attention attention(size_t first, size_t count, size_t steps) const;

  /// Drops the tokens behind the first `count`.
  void truncate(size_t count);

  /// Says what the next tokens may be. Of those that come, step() then reads several at once, where
  /// the file can: what it tells of each is the same.
  void expect(std::vector<int32_t> tokens);

  /// Reads a token. Fails behind max_tokens() of them.
  /// \param logits [vocab_size()] of the next one.
  Status step(int32_t token, std::vector<float>* logits);

 private:
  TextDecoder(TensorProgram& program, const MethodSignature* encoder,
              const MethodSignature* decoder)
      : program_(program), encoder_(encoder), decoder_(decoder) {}
  bool fits(const TranscriptionSettings& settings);
  /// Whether a method is the decoder of several tokens.
  bool verifies(const MethodSignature& method) const;
  /// Whether a token is the next of those that are expected.
  bool is_expected(int32_t token) const;
  /// Reads it, and more of these.
  Status read_ahead();
  Result<std::vector<Tensor>> run(const MethodSignature& method, const int64_t* tokens,
                                  const int64_t* positions, const float* bias);
  /// Caches what was made of the next `count` tokens.
  void keep(const std::vector<Tensor>& outputs, size_t count);

  TensorProgram& program_;
  const MethodSignature* const encoder_;
  const MethodSignature* const decoder_;
  const MethodSignature* verifier_ = nullptr;  ///< of several tokens; files may lack it
  size_t layers_ = 0, max_tokens_ = 0;
  const uint8_t* positions_ = nullptr;      ///< of the encoder's second input
  std::vector<Tensor> window_;              ///< keys, then values, of each layer
  std::vector<std::vector<float>> cached_;  ///< the same of tokens: [max_tokens()][width]
  std::vector<float> bias_;                 ///< [max_tokens() + 1]
  std::vector<DecoderHead> aligned_;
  std::vector<size_t> asking_;  ///< of each, which of the outputs has its layer's queries
  size_t head_size_ = 0;
  std::vector<float> queries_;  ///< [max_tokens()][aligned_][head_size_]
  int64_t position_ = 0;
  std::vector<int32_t> expected_;
  size_t expected_from_ = 0;           ///< the first one's position
  size_t ahead_from_ = 0, ahead_ = 0;  ///< the first ones' positions that were read, and were not
  std::vector<uint8_t> ahead_logits_;  ///< [...][vocab_size()], of the first
};

}  // namespace thimble
