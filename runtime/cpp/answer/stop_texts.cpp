#include "answer/stop_texts.h"

#include <algorithm>
#include <utility>

namespace thimble {

StopTexts::Search::Search(std::string stop) : text(std::move(stop)), fallback(text.size(), 0) {
  for (size_t end = 1, length = 0; end < text.size(); ++end) {
    while (length > 0 && text[end] != text[length]) length = fallback[length - 1];
    if (text[end] == text[length]) ++length;
    fallback[end] = length;
  }
}

void StopTexts::Search::push(char byte) {
  while (matched > 0 && text[matched] != byte) matched = fallback[matched - 1];
  if (text[matched] == byte) ++matched;
}

StopTexts::StopTexts(const std::vector<std::string>& texts)
    : searches_(texts.begin(), texts.end()) {}

std::string StopTexts::push(std::string_view text) {
  if (found_ || text.empty()) return "";
  size_t undecided = 0, complete = 0;  // bytes at the end
  for (size_t i = 0; i < text.size() && complete == 0; ++i) {
    held_ += text[i];
    undecided = 0;
    for (Search& search : searches_) {
      search.push(text[i]);
      undecided = std::max(undecided, search.matched);
      if (search.matched == search.text.size()) complete = std::max(complete, search.matched);
    }
  }
  found_ = complete > 0;
  std::string decided = held_.substr(0, held_.size() - (found_ ? complete : undecided));
  held_.erase(0, found_ ? held_.size() : decided.size());
  return decided;
}

std::string StopTexts::finish() {
  for (Search& search : searches_) search.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace thimble
