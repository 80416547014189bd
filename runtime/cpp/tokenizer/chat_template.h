#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/flatbuffer.h"
#include "core/status.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

struct SeenPicture;

/// One turn of a conversation.
struct Message {
  std::string role;  ///< "system" (only the first), "user" or "assistant"
  std::string content;
  std::vector<std::shared_ptr<SeenPicture>> pictures = {};  ///< of a user, before the content
};

/// A chat template, reduced at export to literal pieces per role (schemas/chat_template.fbs).
class ChatTemplate {
 public:
  /// Reads the compiled form, which must outlive the template. Fails with a sentence if the bytes
  /// are damaged, or of another kind or version.
  static Result<ChatTemplate> load(const uint8_t* data, size_t size);

  /// The template itself, jinja2; "": the file is of version 1, which does not have all.
  std::string_view source() const;

  /// The template that takes its place where functions are given; nothing: itself.
  std::optional<std::string_view> tool_source() const;

  /// The texts of the tokens that it calls by these names; nothing: they are undefined in it.
  std::optional<std::string_view> bos_token() const;
  std::optional<std::string_view> eos_token() const;

  /// The other names that it calls tokens by, and their texts.
  std::vector<std::pair<std::string_view, std::string_view>> tokens() const;

  /// Returns the conversation in the model's own format: the template's text, which may contain
  /// special tokens, and the messages' contents, which may not. Encode the pieces together
  /// (Tokenizer::encode). Fails if the template could not be reduced, if it does not support a
  /// given system message, or pictures, or if user and assistant messages do not alternate up to a
  /// final user message.
  Result<std::vector<Piece>> render(const std::vector<Message>& messages,
                                    bool add_generation_prompt) const;

 private:
  std::optional<std::string_view> text(int field) const;

  FlatbufferTable table_;
};

}  // namespace thimble
