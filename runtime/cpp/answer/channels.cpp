#include "answer/channels.h"

#include <algorithm>
#include <string>
#include <utility>

namespace thimble {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kStart = "<|start|>";
constexpr std::string_view kHeads[] = {"assistant", "to="};  // what is before a header's channel
constexpr std::string_view kMessageEnds[] = {"<|end|>", "<|return|>", "<|call|>"};
constexpr std::pair<std::string_view, std::string_view> kReasoning[] = {
    {"<|channel>", "<channel|>"}, {"[THINK]", "[/THINK]"}, {"<think>", "</think>"}};
constexpr std::string_view kThink = "<think>", kThought = "</think>";
constexpr size_t kPromptEnd = 16;  // tokens in which a prompt may begin the reasoning
constexpr std::string_view kSpace = " \t\r\n";

bool is_special(const Tokenizer& tokenizer, std::string_view name) {
  return tokenizer.decoder().skips(tokenizer.find_special(name)) &&
         tokenizer.find_special(name) >= 0;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(kSpace) == text.npos; }

/// Whether what may be a message's header is one so far.
bool may_be_header(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return std::any_of(std::begin(kHeads), std::end(kHeads), [=](std::string_view head) {
    const size_t size = std::min(text.size(), head.size());
    return text.compare(0, size, head, 0, size) == 0;
  });
}

}  // namespace

Channels::Channels(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                   const Constraint* constraint) {
  if (constraint != nullptr && constraint->is_json()) return;
  const bool constrained = constraint != nullptr;
  const auto may_have = [&](std::string_view mark) {
    return !constrained || constraint->may_have(is_special(tokenizer, mark)
                                                    ? token_mark(tokenizer.find_special(mark))
                                                    : std::string(mark));
  };
  has_messages_ = is_special(tokenizer, kChannel) && is_special(tokenizer, kMessage);
  if (has_messages_) {
    part_ = Part::kUndecided;
    return;
  }
  for (const auto& marks : kReasoning) {
    if (!is_special(tokenizer, marks.first) || !is_special(tokenizer, marks.second)) continue;
    reasoning_ = marks;
    const int32_t begin = tokenizer.find_special(marks.first);
    const int32_t end = tokenizer.find_special(marks.second);
    const auto last = std::find_if(prompt.rbegin(), prompt.rend(),
                                   [=](int32_t token) { return token == begin || token == end; });
    if (last != prompt.rend() && *last == begin && may_have(marks.second)) {
      part_ = Part::kReasoning;
    }
    holds_all_ = constrained && part_ == Part::kReasoning;
    return;
  }
  has_texts_ = true;
  std::string end;
  for (size_t i = prompt.size() - std::min(prompt.size(), kPromptEnd); i < prompt.size(); ++i) {
    end += tokenizer.token_bytes(prompt[i]);
  }
  end.erase(end.find_last_not_of(kSpace) + 1);
  const bool begun = end.size() >= kThink.size() &&
                     end.compare(end.size() - kThink.size(), kThink.size(), kThink) == 0;
  part_ = begun ? Part::kReasoning : Part::kUndecided;
  if (begun && !may_have(kThought)) part_ = Part::kContent;
  holds_all_ = constrained && part_ == Part::kReasoning;
}

void Channels::enter(std::string_view name) {
  const bool begins = name == reasoning_.first, ends_it = name == reasoning_.second;
  if (!name.empty() && (begins || ends_it)) {
    at_start_ = at_start_ || (ends_it && part_ == Part::kReasoning);
    part_ = begins ? Part::kReasoning : Part::kContent;
    holds_all_ = false;
    held_.clear();
  }
  if (!has_messages_) return;
  if (part_ == Part::kUndecided && (name == kChannel || name == kMessage)) {
    header_ = std::exchange(held_, "");
    part_ = Part::kHeader;
  }
  if (name == kMessage && part_ == Part::kHeader) {
    const bool is_analysis = header_.find("<|channel|>analysis") != std::string::npos;
    const bool is_call = header_.find("to=") != std::string::npos;
    part_ = is_analysis || is_call ? Part::kReasoning : Part::kContent;
    return;
  }
  const bool ends =
      std::find(std::begin(kMessageEnds), std::end(kMessageEnds), name) != std::end(kMessageEnds);
  if (!ends && name != kStart && name != kChannel) return;
  if (part_ == Part::kUndecided && !is_blank(held_)) left_ += held_;
  held_.clear();
  if (part_ != Part::kHeader || name != kChannel) header_.clear();
  part_ = ends ? Part::kUndecided : Part::kHeader;
  header_ += name;
}

std::string Channels::content_of_text(std::string_view text) {
  held_ += text;
  if (part_ == Part::kUndecided) {
    const size_t begin = std::min(held_.find_first_not_of(kSpace), held_.size());
    const size_t size = std::min(held_.size() - begin, kThink.size());
    if (kThink.compare(0, size, held_, begin, size) != 0) {
      part_ = Part::kContent;
      return std::exchange(held_, "");
    }
    if (size < kThink.size()) return "";
    part_ = Part::kReasoning;
    held_.erase(0, begin + size);
  }
  const size_t end = held_.find(kThought);
  if (end == held_.npos) {
    if (!holds_all_) {
      held_.erase(0, held_.size() - std::min(held_.size(), kThought.size() - 1));
    }
    return "";
  }
  part_ = Part::kContent;
  at_start_ = true;
  return content_of(std::exchange(held_, "").substr(end + kThought.size()));
}

std::string Channels::content_of_undecided(std::string_view text) {
  held_ += text;
  if (may_be_header(held_)) return std::exchange(left_, "");
  part_ = Part::kContent;
  return std::exchange(left_, "") + std::exchange(held_, "");
}

std::string Channels::finish() {
  if (has_messages_) {
    const bool is_content = part_ == Part::kUndecided && !is_blank(held_);
    return left_ + (is_content ? held_ : "");
  }
  const bool is_content = part_ == Part::kUndecided || (part_ == Part::kReasoning && holds_all_);
  return is_content ? std::exchange(held_, "") : "";
}

std::string Channels::content_of(std::string_view text) {
  if (has_messages_ && part_ == Part::kUndecided) return content_of_undecided(text);
  if (has_texts_ && part_ != Part::kContent) return content_of_text(text);
  if (part_ == Part::kHeader) header_ += text;
  if (part_ == Part::kReasoning && holds_all_) held_ += text;
  if (part_ != Part::kContent) return "";
  if (at_start_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  at_start_ = at_start_ && text.empty();
  return std::exchange(left_, "").append(text);
}

}  // namespace thimble
