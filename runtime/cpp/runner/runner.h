#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "answer/generate_options.h"
#include "answer/stats.h"
#include "core/status.h"
#include "draft/drafter.h"
#include "draft/verified_draft.h"
#include "model/model.h"
#include "picture/picture.h"
#include "runner/conversations.h"
#include "see/row_positions.h"
#include "see/sight.h"

namespace thimble {

/// A language model that continues text, with its own key/value cache. A runner and its forks share
/// the model: only one thread at a time may use any of them.
class Runner {
 public:
  /// Loads a model. Threads of ExecuTorch's pool are shared by all runners of a process; those of
  /// the CPU delegate are the model's own.
  static Result<std::unique_ptr<Runner>> load(const std::string& path, const LoadOptions& options);
  /// The same of a file that is in memory already: see PteFile::open().
  static Result<std::unique_ptr<Runner>> load(const uint8_t* data, size_t size,
                                              const std::string& name, const LoadOptions& options);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt) const {
    return model_->encode_prompt(prompt);
  }

  /// What sees of the model; fails if it does not.
  Result<std::shared_ptr<Sight>> sight() const { return sight_; }

  /// Takes a picture into a text of this model, behind those of `text`. Fails if the model does not
  /// see, or they do not fit the context.
  Status see(const Picture& picture, Pictures* text) const;

  /// The tokens of a prompt with pictures, as prompt_with_pictures() writes it; those below 0 are
  /// rows of the pictures, which must be held until generate() has begun.
  Result<std::vector<int32_t>> encode_prompt(std::string_view prompt,
                                             const Pictures& pictures) const;

  /// The tokens of a conversation with pictures: see encode_with_pictures().
  Result<std::vector<int32_t>> encode_pieces(const std::vector<Piece>& pieces,
                                             const Pictures& pictures) const;

  /// Whether every token is in the vocabulary, or a row of a picture, and all fit the context.
  Status check_context(const std::vector<int32_t>& tokens) const {
    return model_->check_context(with_places(tokens));
  }

  /// Compiles a constraint for GenerateOptions, null if the text is none; the runner must outlive
  /// it.
  Result<std::unique_ptr<Constraint>> compile(const ConstraintText& text,
                                              const StillWanted& wanted = nullptr) const {
    return model_->compile(text, wanted);
  }

  /// Continues `tokens`. The part that is already in the key/value cache is not computed again.
  /// stats() has the statistics, on success and on failure.
  Status generate(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                  const TextCallback& on_text);

  /// The logits after each of `rows` tokens of a text from index `first` on, as in an answer: the
  /// CPU delegate gives up to 64 rows in a call, bit for bit those of a call for each; other
  /// delegates are called for each. The tokens before are processed as a prompt. `logits` has room
  /// for a row of vocab_size() numbers for each.
  /// \param tokens the complete text, whose length chooses its rotary table.
  Status logits(const std::vector<int32_t>& tokens, size_t first, size_t rows, float* logits);

  /// The logits after `tokens`, of which those in the cache are not computed again. Valid until the
  /// next call of the model.
  Result<const float*> logits_after(const std::vector<int32_t>& tokens);

  /// The tokens whose keys and values are in the cache.
  const std::vector<int32_t>& cached() const { return cached_; }

  /// The adapter that it runs with, by name; "": none, as at first.
  const std::string& adapter() const { return stats_.adapter; }
  /// Changes the adapter. The cache is then empty, because it was computed with another one; the
  /// conversation stays, and is computed again when it continues.
  Status use_adapter(const std::string& name);

  /// Makes generate() verify guesses of what comes next, if the program gives the logits of several
  /// tokens; null: not, as at first. The text stays the same.
  void use_drafter(std::shared_ptr<Drafter> drafter) { drafter_ = std::move(drafter); }
  const std::shared_ptr<Drafter>& drafter() const { return drafter_; }

  /// Removes every token from `length` on; fails if the cache has fewer. If its sliding windows do
  /// not reach so far back, or so short a text has another rotary table, the rest is computed
  /// again.
  Status truncate(size_t length);

  /// The messages of the current chat, maintained by Chat: the system message, if any, and complete
  /// turns. They are saved, restored and forked with the cache.
  std::vector<Message>& conversation() { return conversations_.current(); }
  Conversations& conversations() { return conversations_; }
  /// The number of its turns: a user's message and its answer.
  size_t turns() const;

  /// Save and restore the cache and the conversation with a file. They fail if the cache is not the
  /// CPU delegate's, or was saved with another adapter; on failure nothing changes.
  Status save(const std::string& path) const;
  Status restore(const std::string& path);
  /// Returns another runner of the same model, with the same adapter, that continues from here
  /// independently.
  Result<std::unique_ptr<Runner>> fork() const;

  /// Statistics before the first answer: what describes the model.
  Stats fresh_stats() const;
  /// Clears the statistics of earlier answers.
  void clear_stats() { stats_ = fresh_stats(); }

  const Model& model() const { return *model_; }
  const std::shared_ptr<Model>& shared_model() const { return model_; }
  /// The number of its cache in the model's session.
  int32_t cache() const { return cache_; }
  const Stats& stats() const { return stats_; }

 private:
  static Result<std::unique_ptr<Runner>> load(const std::function<Result<PteFile>()>& open,
                                              const LoadOptions& options);
  Runner(std::shared_ptr<Model> model, int32_t cache);
  LoadedMethod& program() const { return model_->program(); }
  SessionHandle* session() const { return program().session(); }
  const Tokenizer& tokenizer() const { return model_->tokenizer(); }
  Status choose_cache() const;
  /// The session with this runner's cache as the current one; an error if the cache cannot be
  /// `verb`.
  Result<SessionHandle*> own_session(const char* verb) const;
  /// Makes the cache have the rotary table of a text of `length` tokens; if that changes it, the
  /// cache is empty. `kept`: how many of its tokens the text begins with.
  Status choose_table(size_t length, size_t kept);
  /// How many tokens of the cache `tokens` begin with.
  size_t common(const std::vector<int32_t>& tokens) const;
  /// Removes every token from `length` on, or all if the cache's windows do not reach so far back.
  Status rewind(size_t length);
  /// Removes from the cache everything after the common prefix with the text `tokens`, and
  /// everything from `most` on, or more if it must.
  Status keep_common(const std::vector<int32_t>& tokens, size_t most);
  /// Extends the cache, which has a prefix of `tokens`, to `end` of them; returns the logits of the
  /// last, null if there is nothing to do or it was interrupted.
  Result<const float*> extend(const std::vector<int32_t>& tokens, size_t end,
                              const std::atomic<bool>* interrupted);
  /// Extends the cache to all `tokens`; returns the logits of the last, null if interrupted.
  Result<const float*> prefill(const std::vector<int32_t>& tokens,
                               const std::atomic<bool>* interrupted);
  /// Extends the cache by tokens that were chosen; returns the logits after them, null if
  /// interrupted. A drafter's guesses may be in the cache behind them, until drop_ahead().
  Result<const float*> advance(const std::vector<int32_t>& chosen, const Sampler& sampler,
                               const std::atomic<bool>* interrupted);
  Status drop_ahead();
  /// Calls the model with tokens that follow those of the cache; returns the logits of the last
  /// `logit_rows`.
  Result<const float*> forward(const std::vector<int64_t>& tokens, size_t logit_rows = 1);
  /// The same of tokens and rows of pictures; null if interrupted before all rows are computed.
  Result<const float*> read_rows(const std::vector<int64_t>& tokens,
                                 const std::atomic<bool>* interrupted);
  /// What tokens behind the cached ones are rotated by.
  Result<RowPositions> positions_of(const std::vector<int64_t>& tokens) const {
    return sight_.ok() ? positions_behind(**sight_, cached_, tokens) : RowPositions{};
  }
  thimble_segment segment_of(size_t rows, size_t logit_rows, const RowPositions& positions) const;
  /// Tells the statistics of what a recording kept of the last call.
  void count_recorded();
  /// A text with the token of a picture's place for each row.
  std::vector<int32_t> with_places(const std::vector<int32_t>& tokens) const {
    return sight_.ok() ? (*sight_)->with_places(tokens) : tokens;
  }
  /// Holds the pictures of a text that will be in the cache.
  Status hold_pictures(const std::vector<int32_t>& tokens);

  std::shared_ptr<Model> model_;
  int32_t cache_;                ///< its number in the session
  std::vector<int32_t> cached_;  ///< the tokens whose keys and values are in the cache
  Conversations conversations_;
  Result<std::shared_ptr<Sight>> sight_;  ///< shared with forks and engines
  Pictures pictures_;                     ///< of the cache
  std::shared_ptr<Drafter> drafter_;
  VerifiedDraft ahead_;
  CallCosts call_costs_;
  Stats stats_;
};

}  // namespace thimble
