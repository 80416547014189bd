#include "runner/chat.h"

namespace thimble {

Chat::Chat(Runner& runner, const std::string& system) : runner_(runner) {
  if (!system.empty()) messages_.push_back({"system", system});
}

Status Chat::respond(const std::string& message, const GenerateOptions& options,
                     const Runner::TextCallback& on_text) {
  messages_.push_back({"user", message});
  const Result<std::vector<int32_t>> tokens = encode();
  std::string answer;
  Status status = tokens.status();
  if (tokens.ok()) {
    status = runner_.generate(*tokens, options, [&](std::string_view text) {
      answer += text;
      return on_text(text);
    });
  }
  if (status.ok()) {
    messages_.push_back({"assistant", answer});
  } else {
    messages_.pop_back();
  }
  return status;
}

Result<std::vector<int32_t>> Chat::encode() const {
  const auto pieces =
      runner_.model().chat_template()->render(messages_, /*add_generation_prompt=*/true);
  if (!pieces.ok()) return pieces.status();
  return runner_.model().tokenizer().encode(*pieces);
}

}  // namespace thimble
