#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "runner/program.h"
#include "runner/pte_file.h"
#include "runner/sampler.h"
#include "runner/stats.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

struct GenerateOptions {
  int64_t max_new_tokens = 0;  ///< 0: until the model ends or the context is full
  SamplerOptions sampler;
  const std::atomic<bool>* interrupted = nullptr;  ///< polled between calls of the model
};

/// A language model in memory that continues text. One thread at a time.
class Runner {
 public:
  /// Takes whole UTF-8 characters as they come; false ends the answer.
  using TextCallback = std::function<bool(std::string_view text)>;

  /// Loads a model and starts `threads` threads, which all runners of a process share; 0: one for
  /// each core worth using. `profile` may be null, and must outlive the runner.
  static Result<std::unique_ptr<Runner>> load(const std::string& path, int32_t threads,
                                              Profile* profile);

  /// The tokens of a plain prompt, behind BOS if the model's tokenizer adds one. An empty prompt is
  /// BOS alone, and an error where the model has none.
  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt) const;

  /// Answers the context `tokens`. What the key/value cache already holds of it is not computed
  /// again. The statistics are in stats() whether it succeeds or fails.
  Status generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                  const TextCallback& on_text);

  /// Forgets the key/value cache and the statistics of earlier answers.
  void reset();

  const PteFile& file() const { return file_; }
  const Program& program() const { return *program_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Null when the model has none that can be rendered; why not is in chat_template_error().
  const ChatTemplate* chat_template() const { return chat_template_.get(); }
  const std::string& chat_template_error() const { return chat_template_error_; }
  const Stats& stats() const { return stats_; }

 private:
  explicit Runner(PteFile file) : file_(std::move(file)) {}
  Status load_tokenizer();
  void load_chat_template();
  Status check_context(const std::vector<int32_t>& tokens) const;
  /// Brings the cache up to `tokens`; the logits of the last.
  Result<const float*> prefill(const std::vector<int32_t>& tokens,
                               const std::atomic<bool>* interrupted);
  Result<const float*> step(int32_t token);
  bool ends_answer(int32_t token) const;

  PteFile file_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::string chat_template_error_;
  std::vector<int32_t> end_ids_;
  std::vector<int32_t> cached_;  ///< the tokens whose keys and values the cache holds
  Stats stats_;
};

}  // namespace thimble
