#include "program/embed_lines.h"

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "embed/embedder.h"
#include "program/recording_signal.h"
#include "program/standard_output.h"
#include "program/text_file.h"

namespace thimble {
namespace {

constexpr size_t kTogether = 64;  // lines that are read before they are embedded

/// As few digits as tell every float32 apart.
std::string to_line(const float* row, size_t width) {
  std::string line;
  std::array<char, 32> number{};
  for (size_t i = 0; i < width; ++i) {
    std::snprintf(number.data(), number.size(), i > 0 ? " %.9g" : "%.9g",
                  static_cast<double>(row[i]));
    line += number.data();
  }
  return line + "\n";
}

class Lines {
 public:
  Lines(Embedder& embedder, const Options& options) : embedder_(embedder), options_(options) {}

  Status embed(const std::vector<std::string>& lines) {
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string name = "text " + std::to_string(texts_ + static_cast<int64_t>(i) + 1);
      if (Status status = check_utf8(name, lines[i]); !status.ok()) return status;
    }
    const std::vector<std::string_view> texts(lines.begin(), lines.end());
    std::vector<float> rows(texts.size() * embedder_.width());
    EmbeddingCounts counts;
    Status status = embedder_.embed(texts, options_.prompt_name, rows.data(), &counts);
    if (!status.ok()) return status;
    texts_ += static_cast<int64_t>(texts.size());
    tokens_ += counts.tokens;
    cut_ += counts.cut;
    for (size_t i = 0; i < texts.size(); ++i) {
      output_.write(to_line(&rows[i * embedder_.width()], embedder_.width()));
    }
    return output_.status();
  }

  void explain() const {
    if (!options_.quiet) std::fprintf(stderr, "runner: %s\n", statistics().c_str());
    if (cut_ == 0) return;
    std::fprintf(stderr, "runner: %lld of the texts had more than %lld tokens, and %s cut\n",
                 static_cast<long long>(cut_),
                 static_cast<long long>(embedder_.settings().max_seq_len),
                 cut_ == 1 ? "was" : "were");
  }

 private:
  std::string statistics() const {
    return std::to_string(texts_) + (texts_ == 1 ? " text of " : " texts of ") +
           std::to_string(tokens_) + " tokens, rows of " + std::to_string(embedder_.width()) +
           " numbers";
  }

  Embedder& embedder_;
  const Options& options_;
  StandardOutput output_;
  int64_t texts_ = 0, tokens_ = 0, cut_ = 0;
};

}  // namespace

Result<int> embed_lines(const Options& options) {
  block_recording_signal();  // in the threads that loading starts as well
  Result<std::unique_ptr<Embedder>> loaded =
      Embedder::load(PteFile::open(options.model, options.load.signer), options.load);
  if (!loaded.ok()) return loaded.status();
  RecordingSignal signal((*loaded)->program().recorder(), options.etdump);
  const Result<std::string> prompt = (*loaded)->settings().prompt(options.prompt_name);
  if (!prompt.ok()) return prompt.status();
  Lines lines(**loaded, options);
  std::vector<std::string> read;
  if (options.prompt) read.push_back(*options.prompt);
  std::string line;
  while (!options.prompt) {
    const Result<bool> is_line = read_input_line(&line);
    if (!is_line.ok()) return is_line.status();
    if (!*is_line) break;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    read.push_back(line);
    if (read.size() < kTogether) continue;
    const Status status = lines.embed(read);
    if (!status.ok()) return status;
    read.clear();
  }
  Status status = lines.embed(read);
  if (status.ok()) status = signal.finish();
  if (!status.ok()) return status;
  lines.explain();
  return 0;
}

}  // namespace thimble
