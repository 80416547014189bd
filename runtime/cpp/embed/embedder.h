#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "embed/embedding_settings.h"
#include "model/loaded_method.h"
#include "model/pte_file.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// What embedding some texts has counted.
struct EmbeddingCounts {
  int64_t tokens = 0;  ///< that were read, those around texts included
  int64_t cut = 0;     ///< texts that were longer than the model reads
  int64_t calls = 0;   ///< of the model
};

/// A loaded file of a model that embeds texts: each becomes a row of numbers.
class Embedder {
 public:
  /// Loads the program of an open file; the error of one that is not.
  static Result<std::unique_ptr<Embedder>> load(Result<PteFile> file, const LoadOptions& options);

  /// Numbers of a row.
  size_t width() const { return static_cast<size_t>(program_->width()); }
  const EmbeddingSettings& settings() const { return settings_; }
  LoadedMethod& program() const { return *program_; }

  /// The tokens of a text, those around it included, in one that a prompt begins. A longer one is
  /// cut at its end.
  std::vector<int64_t> encode(std::string_view prompt, std::string_view text, bool* cut) const;

  /// Embeds texts, several in a call without padding: a row does not depend on the others.
  /// \param prompt its name; absent: the model's default; "": none.
  /// \param rows [texts][width()].
  Status embed(const std::vector<std::string_view>& texts, const std::optional<std::string>& prompt,
               float* rows, EmbeddingCounts* counts);

 private:
  explicit Embedder(PteFile file) : file_(std::move(file)) {}
  Status load_texts();
  /// Embeds the tokens of some texts, one behind the other.
  Status call(const std::vector<int64_t>& tokens, const std::vector<thimble_segment>& texts,
              float* rows, EmbeddingCounts* counts);

  PteFile file_;
  std::unique_ptr<LoadedMethod> program_;
  std::unique_ptr<Tokenizer> tokenizer_;
  EmbeddingSettings settings_;
};

}  // namespace thimble
