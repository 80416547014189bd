/// Compiled chat templates (exporter/schemas/chat_template.fbs), and what they render.

#include <string>
#include <vector>

#include "fuzz/flatbuffer_mutator.h"
#include "fuzz/input.h"
#include "tokenizer/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thimble;
  const Result<ChatTemplate> stored = ChatTemplate::load(data, size);
  if (!stored.ok()) {
    require(!stored.message().empty());
    return 0;
  }
  const Message system{"system", " be kind "}, answer{"assistant", "a</think>b"};
  const Message user{"user", "a <s>"}, seeing{"user", "\n", {nullptr, nullptr}};
  for (const std::vector<Message>& messages : {std::vector<Message>{system, user, answer, user},
                                               {seeing, answer, seeing},
                                               {system, answer},
                                               {user, user}}) {
    const auto pieces = stored->render(messages, /*add_generation_prompt=*/true);
    require(pieces.ok() || !pieces.message().empty());
  }
  (void)stored->source();
  (void)stored->tool_source();
  (void)stored->bos_token();
  (void)stored->eos_token();
  (void)stored->tokens();
  return 0;
}
