// Conversations of a runner, through the C interface.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "c_interface/chat_turn.h"
#include "c_interface/shared.h"
#include "c_interface/thimble.h"
#include "runner/chat.h"
#include "runner/runner.h"

namespace {

using thimble::check;
using thimble::given;
using thimble::run_guarded;

thimble::Status start(thimble_runner* runner, const char* system, size_t system_size) {
  std::string text(std::string_view(system, system_size));
  return thimble::Chat::start(*runner->runner, std::move(text)).status();
}

thimble::Status check(const thimble_runner* runner, const char* system, size_t system_size) {
  return given({{"runner", runner}, {"system", system || system_size == 0}});
}

}  // namespace

int thimble_chat_start(thimble_runner* runner, const char* system, size_t system_size, char* error,
                       size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = check(runner, system, system_size);
    return right.ok() ? start(runner, system, system_size) : right;
  });
}

int64_t thimble_chat_begin(thimble_runner* runner, const char* system, size_t system_size,
                           char* error, size_t error_size) {
  int64_t begun = -1;
  const int failed = run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = check(runner, system, system_size);
    if (!right.ok()) return right;
    thimble::Conversations& conversations = runner->runner->conversations();
    const int64_t before = conversations.number(), number = conversations.begin();
    const thimble::Status started = start(runner, system, system_size);
    (void)conversations.choose(started.ok() ? number : before);
    if (started.ok()) {
      begun = number;
    } else {
      conversations.end(number);
    }
    return started;
  });
  return failed ? -1 : begun;
}

int thimble_chat_choose(thimble_runner* runner, int64_t conversation, char* error,
                        size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}});
    if (!right.ok() || runner->runner->conversations().choose(conversation)) return right;
    return thimble::Status::error("there is no conversation " + std::to_string(conversation));
  });
}

void thimble_chat_end(thimble_runner* runner, int64_t conversation) {
  if (runner != nullptr) runner->runner->conversations().end(conversation);
}

int thimble_chat_say(thimble_runner* runner, const char* message, size_t message_size,
                     const thimble_options* options, thimble_text_callback on_text, void* context,
                     int64_t* dropped_turns, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&] {
    return thimble::take_turn(runner, message, message_size, /*pictures=*/{}, options, on_text,
                              context, dropped_turns);
  });
}

int thimble_chat_add(thimble_runner* runner, const char* message, size_t message_size,
                     const char* answer, size_t answer_size, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner},
                                         {"message", message || message_size == 0},
                                         {"answer", answer || answer_size == 0}});
    if (!right.ok()) return right;
    thimble::Result<thimble::Chat> chat = thimble::Chat::start(*runner->runner, /*system=*/"");
    if (!chat.ok()) return chat.status();
    chat->add(std::string(std::string_view(message, message_size)),
              std::string(std::string_view(answer, answer_size)));
    return {};
  });
}

int thimble_chat_reset(thimble_runner* runner, char* error, size_t error_size) {
  return run_guarded(error, error_size, [&]() -> thimble::Status {
    const thimble::Status right = given({{"runner", runner}});
    if (!right.ok()) return right;
    thimble::Result<thimble::Chat> chat = thimble::Chat::start(*runner->runner, /*system=*/"");
    return chat.ok() ? chat->reset() : chat.status();
  });
}

int64_t thimble_chat_turns(thimble_runner* runner) {
  return runner == nullptr ? 0 : static_cast<int64_t>(runner->runner->turns());
}

int64_t thimble_chat_turns_of(thimble_runner* runner, int64_t conversation) {
  if (runner == nullptr) return 0;
  const auto* messages = runner->runner->conversations().find(conversation);
  return messages == nullptr ? -1 : static_cast<int64_t>(thimble::Conversations::turns(*messages));
}
