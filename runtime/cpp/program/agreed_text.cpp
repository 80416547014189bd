#include "program/agreed_text.h"

#include <algorithm>

namespace thimble {

std::string AgreedText::more(const std::string& text) {
  size_t same = static_cast<size_t>(
      std::mismatch(
          text.begin(),
          text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), before_.size())),
          before_.begin())
          .first -
      text.begin());
  before_ = text;
  while (same > 0 && (same == text.size() || text[same] != ' ')) --same;  // whole words
  if (same <= printed_.size() || text.compare(0, printed_.size(), printed_) != 0) return "";
  const std::string grown = text.substr(printed_.size(), same - printed_.size());
  printed_ += grown;
  return grown;
}

std::string AgreedText::end(const std::string& text) {
  const bool kept = text.compare(0, printed_.size(), printed_) == 0;
  std::string rest = kept ? text.substr(printed_.size()) : "\n" + text;
  before_.clear();
  printed_.clear();
  return rest;
}

}  // namespace thimble
