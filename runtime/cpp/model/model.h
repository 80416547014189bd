#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/constraint.h"
#include "core/status.h"
#include "model/loaded_method.h"
#include "model/pte_file.h"
#include "platform/threads.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// A loaded file: program, tokenizer, chat template. A runner and its forks share one.
class Model {
 public:
  /// Loads the program of an open file; the error of one that is not.
  static Result<std::shared_ptr<Model>> load(Result<PteFile> file, const LoadOptions& options);

  const PteFile& file() const { return file_; }
  LoadedMethod& program() const { return *program_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// Null if the model has none that can be rendered; chat_template_error() has the reason.
  const ChatTemplate* chat_template() const {
    return chat_template_error_.empty() ? chat_template_.get() : nullptr;
  }
  /// The same, whether it can be rendered or not; null if the file has none.
  const ChatTemplate* stored_chat_template() const { return chat_template_.get(); }
  const std::string& chat_template_error() const { return chat_template_error_; }

  /// The tokens of a plain prompt, after BOS if the model's tokenizer adds one. An empty prompt is
  /// only BOS, and an error if the model has none.
  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt) const;

  /// Whether this token ends an answer.
  bool ends_answer(int32_t token) const;

  /// A constraint on this model's tokens; null where the text is none. Fails if it is not valid, or
  /// if a token's text depends on its neighbours.
  Result<std::unique_ptr<Constraint>> compile(const ConstraintText& text,
                                              const StillWanted& wanted = nullptr);

  /// The names of the adapters that are kept apart.
  const std::vector<std::string>& adapters() const { return adapters_; }

  /// The CPU delegate's session. If the program has none, an error that its cache cannot be `verb`.
  Result<SessionHandle*> session_for(const char* verb) const;

  /// Releases the cache of a destroyed runner; may be called from any thread at any time.
  /// free_given_up() frees it when a runner of the model works next.
  void give_up(int32_t cache) noexcept;
  void free_given_up();

  /// Whether every token is in the vocabulary and all fit the context.
  Status check_context(const std::vector<int32_t>& tokens) const;

 private:
  explicit Model(PteFile file) : file_(std::move(file)) {}
  Status load_tokenizer();
  /// The tokens as constraints need them, sorted at the first call.
  Result<std::shared_ptr<const Vocabulary>> vocabulary();
  void load_chat_template();

  PteFile file_;
  std::unique_ptr<LoadedMethod> program_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::string chat_template_error_;
  std::vector<int32_t> end_ids_;
  platform::Mutex vocabulary_mutex_;
  std::shared_ptr<const Vocabulary> vocabulary_;  ///< guarded by vocabulary_mutex_
  std::vector<std::string> adapters_;
  platform::Mutex mutex_;
  std::vector<int32_t> given_up_;  ///< guarded by mutex_
};

}  // namespace thimble
