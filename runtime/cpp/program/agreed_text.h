#pragma once

#include <string>
#include <string_view>

namespace thimble {

/// Text that grows, of a text that may change: words that two versions in a row agree on.
class AgreedText {
 public:
  /// What to print of the next version.
  std::string more(const std::string& text);
  /// What to print of the final one: all of it on another line, if what was printed has changed.
  std::string end(const std::string& text);

 private:
  std::string before_, printed_;
};

}  // namespace thimble
