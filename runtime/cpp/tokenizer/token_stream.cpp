#include "tokenizer/token_stream.h"

#include <utility>

#include "tokenizer/utf8.h"

namespace thimble {

TokenStream::TokenStream(const Tokenizer& tokenizer, bool at_start, SpecialTokens special,
                         int32_t behind)
    : tokenizer_(tokenizer), decoder_(tokenizer.decoder()), special_(special), at_start_(at_start) {
  Progress progress;
  progress.at_start = at_start;
  progress_.assign(decoder_.finish().size(), progress);
  if (at_start || decoder_.skips(behind)) return;
  const std::string_view last = decoder_.text(behind, /*first=*/false, /*last=*/true);
  between_ = decoder_.text(behind, /*first=*/false, /*last=*/false);
  between_.remove_prefix(between_.substr(0, last.size()) == last ? last.size() : between_.size());
}

std::string TokenStream::push(int32_t id) {
  const bool is_special = decoder_.skips(id);
  if (is_special && special_ != SpecialTokens::kLeftOut) {
    if (waiting_ >= 0) add(std::exchange(waiting_, -1), /*last=*/false);
    held_ += std::exchange(between_, {});
    if (special_ == SpecialTokens::kText) held_ += tokenizer_.text_of(id);
    at_start_ = false;
  } else if (is_special) {
    return finish_text(take(/*at_end=*/decoder_.skipped_cut()), /*at_end=*/false);
  } else if (!decoder_.knows_last()) {
    add(id, /*last=*/false);
  } else {
    if (waiting_ >= 0) add(waiting_, /*last=*/false);
    waiting_ = id;
  }
  const bool ends_characters = is_special && special_ == SpecialTokens::kApart;
  return finish_text(take(ends_characters), /*at_end=*/false);
}

std::string TokenStream::finish() {
  if (waiting_ >= 0) add(waiting_, /*last=*/true);
  waiting_ = -1;
  return finish_text(take(/*at_end=*/true), /*at_end=*/true);
}

void TokenStream::add(int32_t id, bool last) {
  const std::string_view text = decoder_.text(id, at_start_, last);
  held_ += std::exchange(between_, {});
  held_ += text;
  at_start_ = at_start_ && decoder_.start_lasts() && text.empty();
}

std::string TokenStream::take(bool at_end) {
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    Utf8Scan scan = scan_utf8(rest);
    if (scan.kind == Utf8Kind::kCut && !at_end) break;
    if (scan.kind == Utf8Kind::kWhole) {
      text += rest.substr(0, scan.length);
    } else {
      text += kReplacementCharacter;
      if (decoder_.replaces_each_byte()) scan.length = 1;
    }
    rest.remove_prefix(scan.length);
  }
  held_.erase(0, held_.size() - rest.size());
  return text;
}

std::string TokenStream::finish_text(const std::string& text, bool at_end) {
  std::string finished = text;
  for (size_t i = 0; i < progress_.size(); ++i) {
    const Finish& step = decoder_.finish()[i];
    Progress& progress = progress_[i];
    std::string next;
    const auto release = [&next, &step, &progress] {
      for (; progress.held > 0; --progress.held) append_utf8(step.character, &next);
    };
    for (size_t position = 0; position < finished.size();) {
      const size_t begin = position;
      const bool matches = next_code_point(finished, &position) == step.character;
      const bool may_strip = matches && progress.at_start && progress.stripped < step.count;
      if (step.kind == Finish::kReplace && matches) {
        next += step.text;
      } else if (step.kind == Finish::kStripLeft && may_strip) {
        ++progress.stripped;
      } else if (step.kind == Finish::kStripRight && matches) {
        ++progress.held;
        if (progress.held > step.count) {
          append_utf8(step.character, &next);
          progress.held = step.count;
        }
      } else {
        release();
        progress.at_start = false;
        next.append(finished, begin, position - begin);
      }
    }
    if (at_end) progress.held = 0;
    finished = std::move(next);
  }
  return finished;
}

}  // namespace thimble
