#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/constraint.h"
#include "tokenizer/tokenizer.h"

namespace thimble {

/// Tells the content of an answer from what the model thinks before it and from headers: special
/// tokens set those off, as gpt-oss's channels, or a token at which reasoning begins and one at
/// which it ends; else the texts <think>, where the answer begins, and </think>.
class Channels {
 public:
  /// \param tokenizer whose special tokens tell the format.
  /// \param prompt the tokens before the answer, which may have begun the reasoning.
  /// \param constraint of the answer, which need not end that reasoning: if it does not, it is all
  /// content, and passed on as it comes where no text of the constraint can end it; so is what is
  /// JSON as a whole. May be null.
  Channels(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
           const Constraint* constraint);

  /// A special token of the answer, by its text.
  void enter(std::string_view name);

  /// What of the text behind it is content.
  std::string content_of(std::string_view text);
  /// What is content of the text that was not decided on when the answer ended.
  std::string finish();
  /// Whether the text so far ends within reasoning, which is left out.
  bool reasons() const { return part_ == Part::kReasoning && !has_messages_ && !holds_all_; }

 private:
  enum class Part { kContent, kReasoning, kHeader, kUndecided };

  /// The same where reasoning is set off by texts.
  std::string content_of_text(std::string_view text);
  /// The same where a message of gpt-oss's begins, with a header or without one.
  std::string content_of_undecided(std::string_view text);

  bool has_messages_ = false;  ///< the format is gpt-oss's
  std::pair<std::string_view, std::string_view> reasoning_;
  Part part_ = Part::kContent;
  std::string header_;      ///< of the message at work
  bool has_texts_ = false;  ///< reasoning is set off by texts
  std::string held_;        ///< of these, or of a header, what may be the beginning of one
  std::string left_;        ///< content that was held until a special token
  bool holds_all_ = false;  ///< held_ is content, should the reasoning of the prompt not end
  bool at_start_ = false;   ///< of content behind reasoning: white space there is left out
};

}  // namespace thimble
