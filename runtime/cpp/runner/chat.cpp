#include "runner/chat.h"

namespace thimble {

Chat::Chat(Runner& runner, const std::string& system) : runner_(runner) {
  if (!system.empty()) messages_.push_back({"system", system});
}

Result<std::vector<int32_t>> Chat::ask(const std::string& message) {
  messages_.push_back({"user", message});
  Result<std::vector<int32_t>> tokens = encode();
  if (!tokens.ok()) messages_.pop_back();
  return tokens;
}

Status Chat::answer(const std::vector<int32_t>& tokens, const GenerateOptions& options,
                    const Runner::TextCallback& on_text) {
  std::string answer;
  Status status = runner_.generate(tokens, options, [&](std::string_view text) {
    answer += text;
    return on_text(text);
  });
  if (status.ok()) {
    messages_.push_back({"assistant", answer});
  } else {
    messages_.pop_back();
  }
  return status;
}

Result<std::vector<int32_t>> Chat::encode() const {
  const Model& model = runner_.model();
  const auto pieces = model.chat_template()->render(messages_, /*add_generation_prompt=*/true);
  if (!pieces.ok()) return pieces.status();
  std::vector<int32_t> tokens = model.tokenizer().encode(*pieces);
  const Status fits = model.check_context(tokens);
  if (!fits.ok()) return fits;
  return tokens;
}

}  // namespace thimble
