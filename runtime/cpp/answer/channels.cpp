#include "answer/channels.h"

#include <algorithm>

namespace thimble {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>";
constexpr std::string_view kMessageEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
constexpr std::pair<std::string_view, std::string_view> kReasoning[] = {
    {"<|channel>", "<channel|>"}, {"[THINK]", "[/THINK]"}, {"<think>", "</think>"}};
constexpr std::string_view kSpace = " \t\r\n";

bool is_special(const Tokenizer& tokenizer, std::string_view name) {
  return tokenizer.decoder().skips(tokenizer.find_special(name)) &&
         tokenizer.find_special(name) >= 0;
}

}  // namespace

Channels::Channels(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt) {
  has_messages_ = is_special(tokenizer, kChannel) && is_special(tokenizer, kMessage);
  if (has_messages_) return;
  for (const auto& marks : kReasoning) {
    if (!is_special(tokenizer, marks.first) || !is_special(tokenizer, marks.second)) continue;
    reasoning_ = marks;
    const int32_t begin = tokenizer.find_special(marks.first);
    const int32_t end = tokenizer.find_special(marks.second);
    const auto last = std::find_if(prompt.rbegin(), prompt.rend(),
                                   [=](int32_t token) { return token == begin || token == end; });
    if (last != prompt.rend() && *last == begin) part_ = Part::kReasoning;
    return;
  }
}

void Channels::enter(std::string_view name) {
  if (name == reasoning_.first && !name.empty()) {
    part_ = Part::kReasoning;
  } else if (name == reasoning_.second && !name.empty()) {
    part_ = Part::kContent;
    at_start_ = true;
  }
  if (!has_messages_) return;
  if (name == kMessage && part_ == Part::kHeader) {
    const bool is_analysis = header_.find("<|channel|>analysis") != std::string::npos;
    const bool is_call = header_.find("to=") != std::string::npos;
    part_ = is_analysis || is_call ? Part::kReasoning : Part::kContent;
    return;
  }
  const bool ends =
      std::find(std::begin(kMessageEnds), std::end(kMessageEnds), name) != std::end(kMessageEnds);
  if (!ends && name != kStart && name != kChannel) return;
  if (part_ != Part::kHeader) header_.clear();
  part_ = Part::kHeader;
  header_ += name;
}

std::string Channels::content_of(std::string_view text) {
  if (part_ == Part::kHeader) header_ += text;
  if (part_ != Part::kContent) return "";
  if (at_start_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  at_start_ = at_start_ && text.empty();
  return std::string(text);
}

}  // namespace thimble
