#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thimble {

/// Ends a text where one of several texts is complete in it. What may be the beginning of one is
/// held back until that is decided. The one that is complete first counts, and of several that are
/// complete at once the longest, so that the result does not depend on how the text is cut.
class StopTexts {
 public:
  /// \param texts complete UTF-8 characters, at least one each.
  explicit StopTexts(const std::vector<std::string>& texts);

  /// Adds complete characters; returns what is decided: text before any stop text.
  std::string push(std::string_view text);
  /// What is held back, where the text ends; another may follow it.
  std::string finish();

  /// Whether a stop text is complete; what follows is ignored.
  bool found() const { return found_; }

 private:
  /// How much of a text stands at the end of another that comes byte by byte (Knuth, Morris and
  /// Pratt, 1977).
  struct Search {
    explicit Search(std::string text);
    void push(char byte);

    std::string text;
    std::vector<size_t> fallback;  ///< what is left of each length when it does not go on
    size_t matched = 0;
  };

  std::vector<Search> searches_;
  std::string held_;
  bool found_ = false;
};

}  // namespace thimble
