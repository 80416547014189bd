#include "runner/constrained_answer.h"

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

constexpr size_t kLeastForced = 2, kMostForced = 1024;  // bytes
constexpr size_t kContext = 64;                         // bytes that forced ones are split behind

/// Without the characters that are stripped where a text begins.
void strip_start(const std::vector<Finish>& steps, std::string* text) {
  for (const Finish& step : steps) {
    for (uint32_t i = 0; i < step.count && !text->empty(); ++i) {
      size_t next = 0;
      if (next_code_point(*text, &next) != step.character) break;
      text->erase(0, next);
    }
  }
}

Constraint& begun(Constraint& constraint) {
  constraint.begin();
  return constraint;
}

}  // namespace

ConstrainedAnswer::ConstrainedAnswer(Constraint& constraint, const Tokenizer& tokenizer,
                                     size_t vocab_size, bool at_start)
    : constraint_(constraint),
      tokenizer_(tokenizer),
      vocab_size_(vocab_size),
      at_start_(at_start),
      matcher_(begun(constraint)) {}

std::string ConstrainedAnswer::text_of(int32_t token) const {
  const Decoder& decoder = tokenizer_.decoder();
  if (decoder.skips(token)) return "";
  std::string text(decoder.text(token, /*first=*/at_start_, /*last=*/false));
  if (at_start_) strip_start(decoder.finish(), &text);
  return text;
}

Result<const TokenMask*> ConstrainedAnswer::allowed() {
  const TokenMask& mask = at_start_ ? first_mask() : matcher_.mask();
  if (constraint_.recognizer().full()) {
    return Status::error("the constraint is too ambiguous: its states take more than 64 MiB");
  }
  if (mask.none()) {
    return Status::error("no token of the model's vocabulary goes on as the constraint demands");
  }
  return &mask;
}

/// The first tokens of a text may read otherwise than amid one; those that add nothing to it would
/// leave the next one first.
const TokenMask& ConstrainedAnswer::first_mask() {
  first_mask_ = TokenMask(vocab_size_);
  const TokenMask& mask = matcher_.mask();
  for (int32_t token = 0; token < static_cast<int32_t>(vocab_size_); ++token) {
    const std::string text = text_of(token);
    Matcher matcher = matcher_;
    if (text.empty() ? tokenizer_.decoder().skips(token) && mask[static_cast<size_t>(token)]
                     : matcher.accept(text)) {
      first_mask_.set(static_cast<size_t>(token));
    }
  }
  return first_mask_;
}

void ConstrainedAnswer::add(int32_t token) {
  const std::string text = text_of(token);
  (void)matcher_.accept(text);
  text_ += text;
  if (text_.size() > 2 * kContext) text_.erase(0, text_.size() - kContext);
  at_start_ = false;
}

std::vector<int32_t> ConstrainedAnswer::forced() const {
  if (at_start_) return {};
  const std::string forced = matcher_.forced(kMostForced);
  if (forced.size() < kLeastForced) return {};
  // The tokens of the text so far and what is forced: those of its end, if one begins there.
  const std::vector<int32_t> all = tokenizer_.encode(text_ + forced, /*parse_special=*/false);
  size_t begin = all.size(), size = 0;
  while (begin > 0 && size < forced.size()) size += tokenizer_.token_bytes(all[--begin]).size();
  if (size != forced.size()) return {};
  std::vector<int32_t> tokens(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
  std::string joined;
  for (const int32_t token : tokens) joined += tokenizer_.token_bytes(token);
  if (joined != forced) return {};
  // The last one may be another when more text follows.
  Matcher after = matcher_;
  if (!after.accept(forced) || !after.ended()) tokens.pop_back();
  return tokens;
}

}  // namespace thimble
