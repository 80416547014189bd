#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/runner.h"

namespace thimble {

/// A conversation with a model that has a chat template. Every turn renders the whole conversation;
/// the runner computes only what its cache does not hold yet.
class Chat {
 public:
  /// `runner` must have a chat template and outlive the chat. An empty `system` is left out.
  Chat(Runner& runner, const std::string& system);

  /// Adds the user's message; the conversation as tokens, for answer(). A message that cannot be
  /// asked, such as one that the context has no room for, is not added.
  Result<std::vector<int32_t>> ask(const std::string& message);

  /// Generates the answer, which becomes part of the conversation. On failure the message is taken
  /// back.
  Status answer(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                const Runner::TextCallback& on_text);

 private:
  Result<std::vector<int32_t>> encode() const;

  Runner& runner_;
  std::vector<Message> messages_;
};

}  // namespace thimble
