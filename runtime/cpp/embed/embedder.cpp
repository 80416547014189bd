#include "embed/embedder.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "model/open_program.h"

namespace thimble {
Result<std::unique_ptr<Embedder>> Embedder::load(Result<PteFile> file, const LoadOptions& options) {
  if (!file.ok()) return file.status();
  std::unique_ptr<Embedder> embedder(new Embedder(std::move(*file)));
  Result<std::unique_ptr<LoadedMethod>> program =
      LoadedMethod::load(OpenProgram::open(embedder->file_, options), kForward, Signature::kRow);
  if (!program.ok()) return program.status();
  embedder->program_ = std::move(*program);
  const Status status = embedder->load_texts();
  if (!status.ok()) return status;
  return embedder;
}

Status Embedder::load_texts() {
  const std::string_view tokenizer = program_->named_data("thimble.tokenizer");
  const std::string_view settings = program_->named_data("thimble.embedding");
  if (tokenizer.empty() || settings.empty()) {
    return Status::error(file_.path() + " has no " +
                         (tokenizer.empty() ? "tokenizer" : "settings of embeddings") +
                         ": export it with thimble-export");
  }
  Result<Tokenizer> read = Tokenizer::load(bytes_of(tokenizer), tokenizer.size());
  if (!read.ok()) return Status::error("cannot load " + file_.path() + ": " + read.message());
  tokenizer_ = std::make_unique<Tokenizer>(std::move(*read));
  Result<EmbeddingSettings> stored = EmbeddingSettings::load(bytes_of(settings), settings.size());
  if (!stored.ok()) return Status::error("cannot load " + file_.path() + ": " + stored.message());
  settings_ = std::move(*stored);
  settings_.max_seq_len =
      std::min(settings_.max_seq_len, static_cast<size_t>(program_->max_seq_len()));
  return {};
}

std::vector<int64_t> Embedder::encode(std::string_view prompt, std::string_view text,
                                      bool* cut) const {
  const std::vector<int32_t> own =
      tokenizer_->encode(std::string(prompt) + std::string(text), /*parse_special=*/false);
  const size_t around = settings_.before.size() + settings_.after.size();
  const size_t room = settings_.max_seq_len - around;
  *cut = own.size() > room;
  const auto end = own.begin() + static_cast<std::ptrdiff_t>(std::min(own.size(), room));
  std::vector<int64_t> tokens(settings_.before.begin(), settings_.before.end());
  tokens.insert(tokens.end(), own.begin(), end);
  tokens.insert(tokens.end(), settings_.after.begin(), settings_.after.end());
  return tokens;
}

Status Embedder::embed(const std::vector<std::string_view>& texts,
                       const std::optional<std::string>& prompt, float* rows,
                       EmbeddingCounts* counts) {
  const Result<std::string> before = settings_.prompt(prompt);
  if (!before.ok()) return before.status();
  *counts = {};
  std::vector<int64_t> tokens;
  std::vector<thimble_segment> segments;
  const auto most = static_cast<size_t>(program_->max_seq_len());
  for (size_t i = 0; i < texts.size(); ++i) {
    bool cut = false;
    const std::vector<int64_t> own = encode(*before, texts[i], &cut);
    if (own.empty()) {
      return Status::error("text " + std::to_string(i + 1) +
                           " has no tokens: give one that is not empty");
    }
    counts->cut += cut ? 1 : 0;
    const bool full = tokens.size() + own.size() > most ||
                      segments.size() == THIMBLE_MOST_LOGIT_ROWS || !program_->runs_segments();
    if (!segments.empty() && full) {
      const Status status = call(tokens, segments, rows + (i - segments.size()) * width(), counts);
      if (!status.ok()) return status;
      tokens.clear();
      segments.clear();
    }
    tokens.insert(tokens.end(), own.begin(), own.end());
    segments.push_back({-1, 0, static_cast<int64_t>(own.size()), 0, nullptr, 0, nullptr});
  }
  if (segments.empty()) return {};
  return call(tokens, segments, rows + (texts.size() - segments.size()) * width(), counts);
}

Status Embedder::call(const std::vector<int64_t>& tokens, const std::vector<thimble_segment>& texts,
                      float* rows, EmbeddingCounts* counts) {
  const Result<const float*> vectors =
      texts.size() == 1 ? program_->run(tokens, 0) : program_->run(tokens, texts);
  if (!vectors.ok()) return vectors.status();
  std::copy_n(*vectors, texts.size() * width(), rows);
  counts->tokens += static_cast<int64_t>(tokens.size());
  ++counts->calls;
  return {};
}

}  // namespace thimble
