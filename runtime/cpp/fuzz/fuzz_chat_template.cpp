/// Compiled chat templates (exporter/schemas/chat_template.fbs), and what they render.

#include <vector>

#include "fuzz/input.h"
#include "tokenizer/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  const Result<ChatTemplate> stored = ChatTemplate::load(data, size);
  if (!stored.ok()) return 0;
  const std::vector<Message> messages = {
      {"system", " be kind "}, {"user", "a <s>"}, {"assistant", "a</think>b"}, {"user", "\n"}};
  const auto pieces = stored->render(messages, /*add_generation_prompt=*/true);
  require(pieces.ok() || !pieces.message().empty());
  (void)stored->source();
  (void)stored->tokens();
  return 0;
}
