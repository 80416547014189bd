#include "answer/text_output.h"

#include <utility>

namespace thimble {

TextOutput::TextOutput(const Tokenizer& tokenizer, const OutputOptions& options,
                       const TextCallback& on_text, bool at_start, int32_t behind)
    : options_(options),
      on_text_(on_text),
      stream_(tokenizer, at_start, options.special_text, behind),
      stops_(options.stop) {}

bool TextOutput::add(int32_t token, std::optional<ChosenLogprob> logprob) {
  if (logprob) waiting_.push_back({made_, std::move(*logprob)});
  const std::string text = stream_.push(token);
  made_ += text.size();
  return pass_on(stops_.push(text));
}

bool TextOutput::pass_on(const std::string& text) {
  passed_ += text.size();
  for (; !waiting_.empty() && waiting_.front().begin < passed_; waiting_.pop_front()) {
    options_.on_token(waiting_.front().logprob);
  }
  return text.empty() || on_text_(text);
}

void TextOutput::finish() {
  std::string rest = stops_.push(stream_.finish());
  if (!stopped()) rest += stops_.finish();
  pass_on(rest);
  if (stopped()) return;
  for (const Waiting& waiting : waiting_) options_.on_token(waiting.logprob);
  waiting_.clear();
}

}  // namespace thimble
