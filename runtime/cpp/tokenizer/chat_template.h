#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// One turn of a conversation.
struct Message {
  std::string role;  ///< "system" (only the first), "user" or "assistant"
  std::string content;
};

/// A chat template reduced at export to literal pieces per role (schemas/chat_template.fbs).
class ChatTemplate {
 public:
  /// Reads the compiled form, which must outlive the template. Fails with a sentence when the bytes
  /// are damaged, or of another kind or version.
  static Result<ChatTemplate> load(const uint8_t* data, size_t size);

  /// The conversation as the model was trained to read it: the template's own text, which may name
  /// special tokens, and the messages' contents, which may not. Encode the pieces together
  /// (Tokenizer::encode). Fails when the template was stored as text, or takes no system message,
  /// or when users and assistants do not take turns up to a user's message.
  Result<std::vector<Piece>> render(const std::vector<Message>& messages,
                                    bool add_generation_prompt) const;

 private:
  FlatbufferTable table_;
};

}  // namespace thimble
