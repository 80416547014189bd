#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "runner/model.h"
#include "runner/sampler.h"
#include "runner/stats.h"

namespace thimble {

struct GenerateOptions {
  int64_t max_new_tokens = 0;  ///< 0: until the model ends or the context is full
  SamplerOptions sampler;
  const std::atomic<bool>* interrupted = nullptr;  ///< polled between calls of the model
};

/// A language model that continues text over a key/value cache of its own. A runner and its forks
/// share the model: one thread at a time for all of them.
class Runner {
 public:
  /// Takes whole UTF-8 characters as they come; false ends the answer.
  using TextCallback = std::function<bool(std::string_view text)>;

  /// Loads a model. Threads of ExecuTorch's pool are shared by all runners of a process; those of
  /// the CPU delegate are the model's own.
  static Result<std::unique_ptr<Runner>> load(const std::string& path, const LoadOptions& options);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt) const {
    return model_->encode_prompt(prompt);
  }

  /// Answers the context `tokens`. What the key/value cache already holds of it is not computed
  /// again. The statistics are in stats() whether it succeeds or fails.
  Status generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                  const TextCallback& on_text);

  /// The logits after each of `tokens` from the one at `first` on, a call of the model for each, as
  /// in an answer; those before are read as a prompt is. `logits` takes a row of vocab_size()
  /// numbers for each.
  Status logits(const std::vector<int32_t>& tokens, size_t first, float* logits);

  /// The tokens whose keys and values the cache holds.
  const std::vector<int32_t>& cached() const { return cached_; }

  /// Forgets every token from `length` on; an error where the cache holds fewer. Where its sliding
  /// windows do not reach so far back, what is kept is computed again.
  Status truncate(size_t length);

  /// The messages of a chat that is held over this cache, kept by Chat: the system's, if any, and
  /// whole turns. They are saved, restored and forked with the cache.
  std::vector<Message>& conversation() { return conversation_; }
  /// Turns of it: a user's message and its answer.
  size_t turns() const;

  /// The cache and the conversation as a value; errors where the cache is not the CPU delegate's.
  /// To a file and back; on failure all stays as it was.
  Status save(const std::string& path) const;
  Status restore(const std::string& path);
  /// Another runner of the same model that goes on from here by itself.
  Result<std::unique_ptr<Runner>> fork() const;

  /// Forgets the statistics of earlier answers.
  void clear_stats();

  const Model& model() const { return *model_; }
  const Stats& stats() const { return stats_; }

 private:
  Runner(std::shared_ptr<Model> model, int32_t cache);
  LoadedMethod& program() const { return model_->program(); }
  SessionHandle* session() const { return program().session(); }
  const Tokenizer& tokenizer() const { return model_->tokenizer(); }
  Status choose_cache() const;
  /// The session, this runner's cache in use; an error where what `verb` says cannot be done.
  Result<SessionHandle*> own_session(const char* verb) const;
  /// Forgets every token from `length` on, and all where the cache's windows do not reach so far
  /// back.
  Status rewind(size_t length);
  /// Forgets what the cache does not have in common with `tokens`, and all from `most` on, or more
  /// where it must.
  Status keep_common(const std::vector<int32_t>& tokens, size_t most);
  /// Brings the cache, which holds some of `tokens`, up to `end` of them; the logits of the last,
  /// null where there is nothing to do.
  Result<const float*> extend(const std::vector<int32_t>& tokens, size_t end,
                              const std::atomic<bool>* interrupted);
  /// Brings the cache up to `tokens`; the logits of the last.
  Result<const float*> prefill(const std::vector<int32_t>& tokens,
                               const std::atomic<bool>* interrupted);
  Result<const float*> step(int32_t token);
  /// Calls the model with tokens behind those of the cache.
  Result<const float*> forward(const std::vector<int64_t>& tokens);

  std::shared_ptr<Model> model_;
  int32_t cache_;                ///< its number in the session
  std::vector<int32_t> cached_;  ///< the tokens whose keys and values the cache holds
  std::vector<Message> conversation_;
  Stats stats_;
};

}  // namespace thimble
