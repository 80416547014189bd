#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"

namespace thimble {

/// A text that may be put before another, such as "query: ".
struct Prompt {
  std::string name;
  std::string text;
};

/// What is done to a text before a model of embeddings reads it (exporter/schemas/embedding.fbs).
struct EmbeddingSettings {
  /// Fails with a sentence if the bytes are damaged, or of another kind or version.
  static Result<EmbeddingSettings> load(const uint8_t* data, size_t size);

  /// The text before the others: that of a name, or with none given of the default; "" names none.
  /// Fails if there is none of that name.
  Result<std::string> prompt(const std::optional<std::string>& name) const;

  size_t max_seq_len = 0;       ///< tokens of a text, those around it included
  std::vector<int32_t> before;  ///< tokens before every text
  std::vector<int32_t> after;
  std::vector<Prompt> prompts;
  std::string default_prompt;  ///< its name; "": none
};

}  // namespace thimble
