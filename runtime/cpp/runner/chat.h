#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/runner.h"

namespace thimble {

/// A conversation with a model that has a chat template: the one that its runner keeps beside the
/// cache. Every turn renders the whole conversation; the runner computes only what its cache does
/// not hold yet. A turn is a user's message and its answer.
///
/// A conversation that outgrows the context loses its oldest turns, never the system message: where
/// less than a quarter of the context, or less than the answer's max_new_tokens, would be left for
/// the next answer, turns go until half of the context is free. So the rest is computed anew once
/// in many turns, and not in every one.
class Chat {
 public:
  /// A message that was asked: the whole conversation as tokens, without its oldest turns where
  /// the context has no room for them.
  struct Question {
    std::vector<int32_t> tokens;
    size_t dropped_turns = 0;
  };

  /// Continues the conversation of `runner`, which must outlive the chat. A `system` that is not
  /// empty takes the place of the system message. An error where the model has no chat template, or
  /// one that takes no system message, or where the system message leaves no room for another: the
  /// conversation is then as it was.
  static Result<Chat> start(Runner& runner, const std::string& system);

  /// Adds the user's message, for answer() to the same `max_new_tokens`. A message that cannot be
  /// asked, such as one that the context has no room for beside the system message, is not added
  /// and drops nothing.
  Result<Question> ask(const std::string& message, int64_t max_new_tokens);

  /// Generates the answer, which becomes part of the conversation. On failure the message is taken
  /// back, and the dropped turns stay.
  Status answer(const Question& question, const GenerateOptions& options,
                const Runner::TextCallback& on_text);

  /// Forgets every turn: the system message stays, and what the cache holds of it.
  Status reset();

 private:
  explicit Chat(Runner& runner) : runner_(&runner) {}
  std::vector<Message>& messages() const { return runner_->conversation(); }
  /// Messages before the first turn: 1 where there is a system message.
  size_t first_turn() const;
  /// The conversation without its oldest turns, as tokens.
  Result<std::vector<int32_t>> encode(size_t dropped_turns) const;
  /// The same without any turn, and with an empty message.
  Result<std::vector<int32_t>> encode_start() const;
  Result<Question> fit(int64_t max_new_tokens) const;
  Result<bool> drop_until(int64_t most_tokens, Question* question) const;

  Runner* runner_;
};

}  // namespace thimble
