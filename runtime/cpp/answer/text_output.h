#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "answer/channels.h"
#include "answer/logprobs.h"
#include "answer/stop_texts.h"
#include "tokenizer/token_stream.h"

namespace thimble {

/// Receives complete UTF-8 characters as they are generated; false ends the answer.
using TextCallback = std::function<bool(std::string_view text)>;

/// What is passed on of an answer.
struct OutputOptions {
  /// Texts at which the answer ends; neither they nor what follows is passed on.
  std::vector<std::string> stop;
  /// Whether special tokens are passed on as text, except for the one that ends the answer.
  bool special_text = false;
  /// Whether text that is not content, such as reasoning, is left out where marks tell it.
  bool content_alone = false;
  /// Receives special tokens by their texts, each between the texts before and behind it, instead
  /// of on_text; no stop text has one in it. False ends the answer. Null: see special_text.
  std::function<bool(std::string_view name)> on_special;
  /// Receives each token of the text, before the text that shows it is passed on; null: not asked
  /// for.
  std::function<void(const ChosenLogprob&)> on_token;
  int32_t top_logprobs = 0;  ///< for on_token
};

/// Passes on the text of tokens, up to a stop text, with the tokens' probabilities.
class TextOutput {
 public:
  /// All must outlive it. `at_start`: the tokens begin a text, and do not go on behind `prompt`.
  /// `constraint`: decides which tokens may come; may be null.
  TextOutput(const Tokenizer& tokenizer, const OutputOptions& options, const TextCallback& on_text,
             bool at_start, const std::vector<int32_t>& prompt, const Constraint* constraint);

  /// Adds a token, whose probability is needed if on_token is. False if the reader wants no more.
  bool add(int32_t token, std::optional<ChosenLogprob> logprob);

  /// Whether a stop text was found.
  bool stopped() const { return stops_.found(); }

  /// Whether the text ends within reasoning that is left out.
  bool reasons() const { return channels_ && channels_->reasons(); }

  /// Passes on what is still held back.
  void finish();

 private:
  struct Waiting {
    size_t begin;  ///< of what the token shows, in the text; in bytes
    ChosenLogprob logprob;
  };

  /// The part of a text that may be passed on.
  std::string content(std::string text) { return channels_ ? channels_->content_of(text) : text; }
  bool pass_on(const std::string& text);
  bool pass_on_special(int32_t token);

  const Tokenizer& tokenizer_;
  const OutputOptions& options_;
  const TextCallback& on_text_;
  TokenStream stream_;
  StopTexts stops_;
  std::optional<Channels> channels_;  ///< if content alone is passed on
  size_t made_ = 0;                   ///< bytes that the tokens have become
  size_t passed_ = 0;                 ///< of those, the ones that were passed on
  std::deque<Waiting> waiting_;
};

}  // namespace thimble
