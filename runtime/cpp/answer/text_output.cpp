#include "answer/text_output.h"

#include <utility>

namespace thimble {
namespace {

SpecialTokens special_tokens(const OutputOptions& options) {
  if (options.on_special || options.content_alone) return SpecialTokens::kApart;
  return options.special_text ? SpecialTokens::kText : SpecialTokens::kLeftOut;
}

}  // namespace

TextOutput::TextOutput(const Tokenizer& tokenizer, const OutputOptions& options,
                       const TextCallback& on_text, bool at_start,
                       const std::vector<int32_t>& prompt, const Constraint* constraint)
    : tokenizer_(tokenizer),
      options_(options),
      on_text_(on_text),
      stream_(tokenizer, at_start, special_tokens(options), prompt.empty() ? -1 : prompt.back()),
      stops_(options.stop) {
  if (options.content_alone) channels_.emplace(tokenizer, prompt, constraint);
}

bool TextOutput::add(int32_t token, std::optional<ChosenLogprob> logprob) {
  if (logprob) waiting_.push_back({made_, std::move(*logprob)});
  const std::string text = content(stream_.push(token));
  made_ += text.size();
  if (!pass_on(stops_.push(text))) return false;
  const bool apart = (options_.on_special || channels_) && tokenizer_.decoder().skips(token);
  return !apart || stopped() || pass_on_special(token);
}

bool TextOutput::pass_on_special(int32_t token) {
  if (!pass_on(stops_.finish())) return false;
  for (const Waiting& waiting : waiting_) options_.on_token(waiting.logprob);
  waiting_.clear();
  const std::string_view name = tokenizer_.text_of(token);
  if (channels_) channels_->enter(name);
  return name.empty() || !options_.on_special || options_.on_special(name);
}

bool TextOutput::pass_on(const std::string& text) {
  passed_ += text.size();
  for (; !waiting_.empty() && waiting_.front().begin < passed_; waiting_.pop_front()) {
    options_.on_token(waiting_.front().logprob);
  }
  return text.empty() || on_text_(text);
}

void TextOutput::finish() {
  std::string last = content(stream_.finish());
  if (channels_) last += channels_->finish();
  std::string rest = stops_.push(last);
  if (!stopped()) rest += stops_.finish();
  pass_on(rest);
  if (stopped()) return;
  for (const Waiting& waiting : waiting_) options_.on_token(waiting.logprob);
  waiting_.clear();
}

}  // namespace thimble
