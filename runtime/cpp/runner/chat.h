#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/runner.h"

namespace thimble {

/// A conversation with a model that has a chat template: the current one of its runner, which
/// stores it together with the cache. Every turn renders the complete conversation; the runner
/// computes only what its cache does not have yet. A turn is a user's message and its answer.
///
/// A conversation that becomes too long for the context loses its oldest turns, never the system
/// message: if less than a quarter of the context, or less than the answer's max_new_tokens, would
/// be left for the next answer, turns are dropped until half of the context is free. So the rest is
/// computed again once in many turns, not in every turn.
class Chat {
 public:
  /// A question: the complete conversation as tokens, without the oldest turns that do not fit the
  /// context.
  struct Question {
    std::vector<int32_t> tokens;
    size_t dropped_turns = 0;
  };

  /// Continues the conversation of `runner`, which must outlive the chat. A `system` that is not
  /// empty replaces the system message. Fails if the model has no chat template, if the template
  /// does not support a system message, or if the system message leaves no room for another
  /// message; the conversation then does not change.
  static Result<Chat> start(Runner& runner, const std::string& system);

  /// Adds the user's message, before which its pictures stand; call answer() next with the same
  /// `max_new_tokens`. If it fails, for example because system message and message do not fit the
  /// context, nothing is added or dropped.
  Result<Question> ask(const std::string& message, int64_t max_new_tokens, Pictures pictures = {});

  /// Generates the answer and adds it to the conversation: its content alone, without reasoning,
  /// which special tokens or <think> set off, unless special tokens are asked for. On failure the
  /// message is removed and no turn is dropped.
  Status answer(const Question& question, const GenerateOptions& options,
                const TextCallback& on_text);

  /// Adds a turn that was had before, such as one that a page kept; nothing is computed yet.
  void add(std::string message, std::string answer);

  /// Removes every turn; the system message and its part of the cache stay.
  Status reset();

 private:
  explicit Chat(Runner& runner) : runner_(&runner) {}
  std::vector<Message>& messages() const { return runner_->conversation(); }
  /// The number of messages before the first turn: 1 if there is a system message.
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
