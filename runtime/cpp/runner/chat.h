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

  /// Adds the user's message and generates the answer, which becomes part of the conversation. On
  /// failure the message is taken back.
  Status respond(const std::string& message, const GenerateOptions& options,
                 const Runner::TextCallback& on_text);

 private:
  Result<std::vector<int32_t>> encode() const;

  Runner& runner_;
  std::vector<Message> messages_;
};

}  // namespace thimble
