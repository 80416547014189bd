#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status.h"
#include "runner/loaded_method.h"
#include "runner/pte_file.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// What a file holds, in memory and ready: program, tokenizer, chat template. Runners that are
/// forks of each other share one.
class Model {
 public:
  static Result<std::shared_ptr<Model>> load(const std::string& path, const LoadOptions& options);

  const PteFile& file() const { return file_; }
  LoadedMethod& program() const { return *program_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Null when the model has none that can be rendered; why not is in chat_template_error().
  const ChatTemplate* chat_template() const { return chat_template_.get(); }
  const std::string& chat_template_error() const { return chat_template_error_; }

  /// The tokens of a plain prompt, behind BOS if the model's tokenizer adds one. An empty prompt is
  /// BOS alone, and an error where the model has none.
  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt) const;

  /// Whether an answer is over with this token.
  bool ends_answer(int32_t token) const;

  /// The CPU delegate's session; an error where the program has none and what `verb` says cannot be
  /// done with its cache.
  Result<SessionHandle*> session_for(const char* verb) const;

  /// Gives up a cache of a runner that is gone: from any thread, whatever runs. It is freed when
  /// the next of the model's runners goes to work, by free_given_up().
  void give_up(int32_t cache);
  void free_given_up();

  /// Whether every token is of the vocabulary and there is room for all in the context.
  Status check_context(const std::vector<int32_t>& tokens) const;

 private:
  explicit Model(PteFile file) : file_(std::move(file)) {}
  Status load_tokenizer();
  void load_chat_template();

  PteFile file_;
  std::unique_ptr<LoadedMethod> program_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::string chat_template_error_;
  std::vector<int32_t> end_ids_;
  std::mutex mutex_;
  std::vector<int32_t> given_up_;  ///< guarded by mutex_
};

}  // namespace thimble
