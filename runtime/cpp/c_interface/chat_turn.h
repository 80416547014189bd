#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "c_interface/shared.h"
#include "runner/chat.h"

namespace thimble {

/// Answers the next message of a runner's conversation: see thimble_chat_say().
inline Status take_turn(thimble_runner* runner, const char* message, size_t message_size,
                        Pictures pictures, const thimble_options* options,
                        thimble_text_callback on_text, void* context, int64_t* dropped_turns) {
  if (options == nullptr) options = &kDefaultOptions;
  const Status right = first_error(
      {given({{"runner", runner}, {"message", message || message_size == 0}, {"on_text", on_text}}),
       check(*options)});
  if (!right.ok()) return right;
  runner->runner->clear_stats();
  Result<Chat> chat = Chat::start(*runner->runner, /*system=*/"");
  if (!chat.ok()) return chat.status();
  const GenerateOptions generate = generate_options(*options, *runner);
  const Result<Chat::Question> question =
      chat->ask(std::string(std::string_view(message, message_size)), generate.max_new_tokens,
                std::move(pictures));
  if (!question.ok()) return question.status();
  if (dropped_turns != nullptr) *dropped_turns = static_cast<int64_t>(question->dropped_turns);
  return chat->answer(*question, generate, to_callback(on_text, context));
}

}  // namespace thimble
