// A compiled chat template at the end of a pipe, for tests:
//   chat_template_cli BLOB end|prompt < requests > answers
// A request is texts: role, content, role, content ... An answer is a text: the pieces, each behind
// '1' (literal) or '0' (a user's) and ended by byte 0xFF, or '!' and the error's sentence.

#include <string>
#include <vector>

#include "tests/binary_requests.h"
#include "tokenizer/chat_template.h"

namespace thimble {
namespace {

std::string answer(const ChatTemplate& chat_template, const std::vector<std::string>& texts,
                   bool prompt) {
  std::vector<Message> messages;
  for (size_t i = 0; i + 1 < texts.size(); i += 2) messages.push_back({texts[i], texts[i + 1]});
  const Result<std::vector<Piece>> pieces = chat_template.render(messages, prompt);
  if (!pieces.ok()) return "!" + pieces.message();
  std::string text;
  for (const Piece& piece : *pieces) {
    text += (piece.literal ? '1' : '0') + piece.text + '\xFF';
  }
  return text;
}

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: chat_template_cli BLOB end|prompt\n", stderr);
    return 2;
  }
  const std::vector<uint8_t> data = read_file(argv[1]);
  const Result<ChatTemplate> chat_template = ChatTemplate::load(data.data(), data.size());
  if (!chat_template.ok()) {
    std::fputs(chat_template.message().c_str(), stderr);
    return 1;
  }
  const bool prompt = std::string(argv[2]) == "prompt";
  for (std::vector<std::string> texts; read_texts(&texts);) {
    write_text(answer(*chat_template, texts, prompt));
  }
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) { return thimble::run(argc, argv); }
