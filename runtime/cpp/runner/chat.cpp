#include "runner/chat.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "core/longer_context.h"

namespace thimble {

Result<Chat> Chat::start(Runner& runner, const std::string& system) {
  const Model& model = runner.model();
  if (model.chat_template() == nullptr) return Status::error(model.chat_template_error());
  Chat chat(runner);
  const std::vector<Message> before = chat.messages();
  if (!system.empty()) {
    if (chat.first_turn() == 0) chat.messages().insert(chat.messages().begin(), {"system", ""});
    chat.messages().front().content = system;
  }
  const Result<std::vector<int32_t>> tokens = chat.encode_start();
  Status status = tokens.status();
  if (status.ok() && static_cast<int64_t>(tokens->size()) > model.program().max_context_len()) {
    status = Status::error("the system prompt has " + std::to_string(tokens->size()) +
                           " tokens, but the model's context holds " +
                           std::to_string(model.program().max_context_len()) + ": shorten it, or " +
                           export_longer());
  }
  if (status.ok()) return chat;
  chat.messages() = before;
  return status;
}

size_t Chat::first_turn() const {
  return !messages().empty() && messages().front().role == "system" ? 1 : 0;
}

Result<Chat::Question> Chat::ask(const std::string& message, int64_t max_new_tokens,
                                 Pictures pictures) {
  messages().push_back({"user", message, std::move(pictures)});
  Result<Question> question = fit(max_new_tokens);
  if (!question.ok()) messages().pop_back();
  return question;
}

Status Chat::answer(const Question& question, const GenerateOptions& options,
                    const TextCallback& on_text) {
  std::string answer;
  GenerateOptions content = options;
  content.output.content_alone = !options.output.special_text && !options.output.on_special;
  Status status = runner_->generate(question.tokens, content, [&](std::string_view text) {
    answer += text;
    return on_text(text);
  });
  if (!status.ok()) {
    messages().pop_back();
    return status;
  }
  messages().push_back({"assistant", answer});
  const auto first = messages().begin() + static_cast<std::ptrdiff_t>(first_turn());
  messages().erase(first, first + static_cast<std::ptrdiff_t>(2 * question.dropped_turns));
  return {};
}

void Chat::add(std::string message, std::string answer) {
  messages().push_back({"user", std::move(message)});
  messages().push_back({"assistant", std::move(answer)});
}

Status Chat::reset() {
  messages().resize(first_turn());
  const Result<std::vector<int32_t>> tokens = encode_start();
  if (!tokens.ok()) return tokens.status();
  const std::vector<int32_t>& cached = runner_->cached();
  const auto common = std::mismatch(cached.begin(), cached.end(), tokens->begin(), tokens->end());
  return runner_->truncate(static_cast<size_t>(common.first - cached.begin()));
}

Result<std::vector<int32_t>> Chat::encode_start() const {
  messages().push_back({"user", ""});
  Result<std::vector<int32_t>> tokens = encode(runner_->turns());
  messages().pop_back();
  return tokens;
}

Result<Chat::Question> Chat::fit(int64_t max_new_tokens) const {
  const int64_t context = runner_->model().program().max_context_len();
  int64_t room = context / 4;
  if (max_new_tokens > 0) room = std::min(room, max_new_tokens);

  Question question;
  Result<std::vector<int32_t>> tokens = encode(/*dropped_turns=*/0);
  if (!tokens.ok()) return tokens.status();
  question.tokens = std::move(*tokens);
  if (static_cast<int64_t>(question.tokens.size()) + room > context) {
    // A long message may leave less than half of the context.
    Result<bool> fits = false;
    for (const int64_t reserve : {context / 2, room, int64_t{0}}) {
      fits = drop_until(context - reserve, &question);
      if (!fits.ok()) return fits.status();
      if (*fits) break;
    }
    if (!*fits) {
      const std::string what = first_turn() == 0
                                   ? "the message has "
                                   : "the system prompt and the message together have ";
      return Status::error(what + std::to_string(question.tokens.size()) +
                           " tokens, but the model's context holds " + std::to_string(context) +
                           ": shorten the message, or " + export_longer());
    }
  }
  const Status status = runner_->check_context(question.tokens);
  if (!status.ok()) return status;
  return question;
}

/// Sets `question` to the conversation without the fewest oldest turns such that it has at most
/// `most_tokens`; returns whether that is possible, else `question` has no turns.
Result<bool> Chat::drop_until(int64_t most_tokens, Question* question) const {
  size_t low = 0, high = runner_->turns();
  while (true) {
    const size_t dropped = low + (high - low) / 2;
    Result<std::vector<int32_t>> tokens = encode(dropped);
    if (!tokens.ok()) return tokens.status();
    const bool fits = static_cast<int64_t>(tokens->size()) <= most_tokens;
    if (low == high) {
      *question = {std::move(*tokens), dropped};
      return fits;
    }
    if (fits) {
      high = dropped;
    } else {
      low = dropped + 1;
    }
  }
}

Result<std::vector<int32_t>> Chat::encode(size_t dropped_turns) const {
  const Model& model = runner_->model();
  const auto system_end = messages().begin() + static_cast<std::ptrdiff_t>(first_turn());
  std::vector<Message> kept(messages().begin(), system_end);
  kept.insert(kept.end(), system_end + static_cast<std::ptrdiff_t>(2 * dropped_turns),
              messages().end());
  const auto pieces = model.chat_template()->render(kept, /*add_generation_prompt=*/true);
  if (!pieces.ok()) return pieces.status();
  Pictures pictures;
  for (const Message& message : kept) {
    pictures.insert(pictures.end(), message.pictures.begin(), message.pictures.end());
  }
  if (pictures.empty()) return model.tokenizer().encode(*pieces);
  return runner_->encode_pieces(*pieces, pictures);
}

}  // namespace thimble
