#include "tokenizer/step.h"

#include "tokenizer/utf8.h"

namespace thimble {
namespace {

enum Field {
  kKindField,
  kMapField,
  kFormField,
  kAutomatonField,
  kCharsmapField,
  kText,
  kBehavior,
  kInverted,
  kUnlessThere,
  kOnlyFirst,
  kStripsLeft,
  kStripsRight,
  kRemovesExtra,
  kAddsPrefix,
  kAddsSuffix,
  kEscapes,
};

constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

/// GPT-2's printable character for a byte.
uint32_t printable(uint8_t byte) {
  if (byte < 0x21) return 0x100 + byte;
  if (byte < 0x7F) return byte;
  if (byte < 0xA1) return 0x121 + (byte - 0x7F);
  return byte == 0xAD ? 0x143 : byte;
}

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

}  // namespace

Result<Step> Step::load(const FlatbufferTable& table) {
  Step step;
  step.kind_ = table.scalar<uint8_t>(kKindField);
  const auto flag = [&table](Field field) { return table.scalar<uint8_t>(field) != 0; };
  const auto part = [&table](Field field, auto* into) -> Status {
    auto loaded = std::decay_t<decltype(*into)>::load(table.table(field));
    if (!loaded.ok()) return loaded.status();
    *into = *loaded;
    return {};
  };
  Status status;
  if (step.kind_ == kMap) status = part(kMapField, &step.map_);
  if (step.kind_ == kForm) status = part(kFormField, &step.form_);
  if (step.kind_ == kCharsmap) status = part(kCharsmapField, &step.charsmap_);
  if (step.kind_ == kReplace || step.kind_ == kSplit) {
    status = part(kAutomatonField, &step.automaton_);
  }
  step.text_ = table.string(kText);
  step.behavior_ = table.scalar<uint8_t>(kBehavior);
  if (step.kind_ > kSplit || step.behavior_ > kMergedWithNext) {
    status = Status::error("one of its steps is unknown");
  }
  if (!status.ok()) return status;
  step.inverted_ = flag(kInverted);
  step.unless_there_ = flag(kUnlessThere);
  step.only_first_ = flag(kOnlyFirst);
  step.strips_left_ = flag(kStripsLeft);
  step.strips_right_ = flag(kStripsRight);
  step.removes_extra_ = flag(kRemovesExtra);
  step.adds_prefix_ = flag(kAddsPrefix);
  step.adds_suffix_ = flag(kAddsSuffix);
  step.escapes_ = flag(kEscapes);
  return step;
}

bool Step::transform(std::string_view text, bool* at_start, std::string* out) const {
  switch (kind_) {
    case kMap: {
      bool keeps_first = true;
      const bool changes = map_.apply(text, &keeps_first, out);
      *at_start = *at_start && keeps_first;
      return changes;
    }
    case kForm:
      if (form_.is_inert(text)) return false;
      *out = form_.normalize(text);
      return true;
    case kReplace:
      return replace(text, at_start, out);
    case kPrepend:
      if (text.empty() || (only_first_ && !*at_start)) return false;
      if (unless_there_ && begins_with(text, text_)) return false;
      out->assign(text_).append(text);
      return true;
    case kStrip:
      return strip(text, at_start, out);
    case kBytes:
      out->clear();
      for (const char c : text) append_utf8(printable(static_cast<uint8_t>(c)), out);
      return true;
    case kCharsmap:
      *out = charsmap_.normalize(text);
      return true;
    case kSpaces:
      return change_spaces(text, out);
    default:
      return false;
  }
}

bool Step::replace(std::string_view text, bool* at_start, std::string* out) const {
  out->clear();
  bool changes = false;
  automaton_.spans(text, [&](size_t begin, size_t end, bool is_match) {
    if (!is_match) {
      out->append(text.substr(begin, end - begin));
      return;
    }
    changes = true;
    size_t one = begin;
    next_code_point(text, &one);
    // What is written for several characters counts as the last of them.
    if (begin == 0 && (text_.empty() || one < end)) *at_start = false;
    out->append(text_);
  });
  return changes;
}

bool Step::strip(std::string_view text, bool* at_start, std::string* out) const {
  size_t begin = 0;
  size_t end = text.size();
  if (strips_left_) begin = skip_white_space(text, 0);
  if (strips_right_) end = skip_white_space_back(text, begin, end);
  if (begin == 0 && end == text.size()) return false;
  if (begin > 0) *at_start = false;
  out->assign(text.substr(begin, end - begin));
  return true;
}

bool Step::change_spaces(std::string_view text, std::string* out) const {
  // In the order of SentencePiece's Normalizer::Normalize.
  const std::string_view space = escapes_ ? kEscapedSpace : " ";
  out->clear();
  size_t position = 0;
  while (removes_extra_ && position < text.size() && text[position] == ' ') ++position;
  if (removes_extra_ && position == text.size()) return true;
  if (adds_prefix_) out->append(space);
  bool after_space = false;
  for (; position < text.size(); ++position) {
    const bool is_space = text[position] == ' ';
    if (!is_space) {
      out->push_back(text[position]);
    } else if (!(after_space && removes_extra_)) {
      out->append(space);
    }
    after_space = is_space;
  }
  while (removes_extra_ && ends_with(*out, space)) out->resize(out->size() - space.size());
  if (adds_suffix_) out->append(space);
  return true;
}

}  // namespace thimble
