#include "answer/constrained_answer.h"

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
  std::string text(tokenizer_.decoder().text(token, /*first=*/at_start_, /*last=*/false));
  if (at_start_) strip_start(tokenizer_.decoder().finish(), &text);
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
    bool is_allowed = mask[static_cast<size_t>(token)];
    if (!is_apart(token)) {
      const std::string text = text_of(token);
      Matcher matcher = matcher_;
      is_allowed = is_of_text(text) && matcher.accept(text);
    }
    if (is_allowed) first_mask_.set(static_cast<size_t>(token));
  }
  return first_mask_;
}

void ConstrainedAnswer::add(int32_t token) {
  if (is_apart(token)) {
    if (!matcher_.accept(token_mark(token))) return;  // it ends the text
    const TokenNames::Token* named = constraint_.names().find(token);
    special_ = named == nullptr ? "" : named->name;
    text_.clear();
    return;
  }
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
  std::string special = special_, before = text_;
  std::vector<int32_t> tokens;
  for (std::string_view rest = forced; !rest.empty();) {
    const int32_t marked = marked_token(rest);
    if (marked >= 0) {
      tokens.push_back(marked);
      special = constraint_.names().find(marked)->name;
      before.clear();
      rest.remove_prefix(kMarkSize);
      continue;
    }
    const std::string_view text = rest.substr(0, rest.find(kMarkByte));
    const std::vector<int32_t> of_text = split(special, before, text);
    if (of_text.empty()) return tokens;
    tokens.insert(tokens.end(), of_text.begin(), of_text.end());
    rest.remove_prefix(text.size());
    if (!rest.empty()) continue;
    // The last one may be another when more text follows.
    Matcher after = matcher_;
    if (!after.accept(forced) || !after.ended()) tokens.pop_back();
  }
  return tokens;
}

/// The tokens of a text behind a special token and other text; none if they do not begin there.
std::vector<int32_t> ConstrainedAnswer::split(const std::string& special, const std::string& before,
                                              std::string_view text) const {
  const std::vector<int32_t> all = tokenizer_.encode(
      {{special, /*literal=*/true}, {before + std::string(text), /*literal=*/false}});
  size_t begin = all.size(), size = 0;
  while (begin > 0 && size < text.size()) size += tokenizer_.token_bytes(all[--begin]).size();
  std::vector<int32_t> tokens(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
  std::string joined;
  for (const int32_t token : tokens) joined += tokenizer_.token_bytes(token);
  if (joined != text) tokens.clear();
  return tokens;
}

}  // namespace thimble
