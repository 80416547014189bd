#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "model/session_handle.h"

namespace executorch::runtime {
class MethodMeta;
}

namespace thimble {

// Most files that see a method need nothing of ExecuTorch, whose headers take a second to compile.
class OpenProgram;
class Recorder;

/// What a method takes and gives.
enum class Signature {
  kLogits,  ///< `(tokens int64 (1, seq_len), input_pos int64 (1,)) -> logits float32 (1,
            ///< vocab_size)`, over its own key/value cache
  kRow      ///< `(tokens int64 (1, seq_len)) -> float32 (1, width)` of a whole text
};

/// A method of a language model's program.
class LoadedMethod {
 public:
  /// Loads a method of an open program; the error of one that is not.
  static Result<std::unique_ptr<LoadedMethod>> load(Result<std::shared_ptr<OpenProgram>> program,
                                                    const std::string& method,
                                                    Signature signature = Signature::kLogits);

  const std::string& method() const { return method_; }

  int64_t max_seq_len() const { return max_seq_len_; }
  int64_t max_context_len() const { return max_context_len_; }
  int64_t vocab_size() const { return vocab_size_; }
  /// Numbers of a row of the output: logits, or those of a text.
  int64_t width() const { return width_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  /// How the model's authors sample, by the names of options of an answer.
  const std::map<std::string, double>& sampling() const { return sampling_; }

  /// The delegates it runs on, by ExecuTorch's names, separated by commas.
  const std::string& delegates() const { return delegates_; }
  int32_t threads() const;
  /// Null if the cache is not the CPU delegate's.
  SessionHandle* session() const;

  /// Records what run() does; may be used from any thread.
  Recorder& recorder();

  /// What it is a method of.
  OpenProgram& open_program() { return *program_; }

  /// A named blob, in place, valid as long as the program; empty if not found.
  std::string_view named_data(const char* name);

  /// Runs the method over tokens at positions start_pos ... The result has width() numbers: the
  /// logits of the last token, or the text's row. Valid until the next call.
  Result<const float*> run(const std::vector<int64_t>& tokens, int64_t start_pos);

  /// Whether layers keep states of the last position alone, which no session takes back.
  bool keeps_states() const { return keeps_states_; }

  /// The longest text that uses the first of two rotary tables; 0: there is one for all lengths.
  int64_t original_context() const { return original_context_; }
  /// Whether a text of so many tokens uses the second.
  bool is_long(size_t length) const {
    return original_context_ > 0 && static_cast<int64_t>(length) > original_context_;
  }
  /// How many tokens may follow so many until the context or their rotary table ends.
  int64_t room_behind(size_t length) const {
    const bool ends_early = original_context_ > 0 && !is_long(length);
    return (ends_early ? original_context_ : max_context_len_) - static_cast<int64_t>(length);
  }

  /// Whether it runs segments: the complete method is one call of the CPU delegate.
  bool runs_segments() const { return runs_segments_; }

  /// Runs the method over tokens of the session's caches. The result has width() logits of each row
  /// that gets them, or those of each text, valid until the next call.
  Result<const float*> run(const std::vector<int64_t>& tokens,
                           const std::vector<thimble_segment>& segments);

 private:
  LoadedMethod(std::shared_ptr<OpenProgram> program, const std::string& method, Signature signature)
      : program_(std::move(program)), method_(method), signature_(signature) {}
  const std::string& path() const;
  Result<const float*> execute(const std::vector<int64_t>& tokens, int64_t start_pos,
                               const char* phase);
  Status read_constants();
  Status read_constant(const char* name, int64_t* value);
  void read_sampling();
  Status no_method() const;
  Status other_signature(const executorch::runtime::MethodMeta& meta) const;
  Status check_signature(const executorch::runtime::MethodMeta& meta);
  Status load_method();

  const std::shared_ptr<OpenProgram> program_;
  const std::string method_;
  const Signature signature_;
  int64_t max_seq_len_ = 0;
  int64_t max_context_len_ = 0;
  int64_t vocab_size_ = 0;
  int64_t original_context_ = 0;
  bool keeps_states_ = false;
  int64_t width_ = 0;
  std::vector<int32_t> eos_ids_;
  std::map<std::string, double> sampling_;
  std::string delegates_;
  bool runs_segments_ = false;
  std::vector<float> logits_;  ///< of segments
};

}  // namespace thimble
