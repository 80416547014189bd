#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tokenizer/chat_template.h"

namespace thimble {

/// The conversations of a runner, by number. One is the current one: 0 at first.
class Conversations {
 public:
  using Messages = std::vector<Message>;

  Messages& current() { return current_; }
  const Messages& current() const { return current_; }

  /// Replaces the messages of the current one, with which those begin that are begun from now on.
  void restore(Messages messages) {
    restored_ = messages;
    current_ = std::move(messages);
  }

  /// Begins another, which becomes the current one; returns its number. Forgets none.
  int64_t begin() {
    others_[number_] = std::exchange(current_, restored_);
    number_ = ++last_;
    return number_;
  }

  /// Makes one the current one; false if there is none of that number.
  bool choose(int64_t number) {
    if (number != number_) {
      const auto chosen = others_.find(number);
      if (chosen == others_.end()) return false;
      Messages messages = std::move(chosen->second);
      others_.erase(chosen);
      others_[number_] = std::exchange(current_, std::move(messages));
      number_ = number;
    }
    if (ended_ != number_) others_.erase(std::exchange(ended_, kNone));
    return true;
  }

  /// Forgets one; the current one once another is chosen.
  void end(int64_t number) {
    if (number == number_) {
      ended_ = number;
    } else {
      others_.erase(number);
    }
  }

  int64_t number() const { return number_; }

  /// The number of turns: a user's message and its answer.
  static size_t turns(const Messages& messages) {
    return static_cast<size_t>(
        std::count_if(messages.begin(), messages.end(),
                      [](const Message& message) { return message.role == "assistant"; }));
  }

  /// The messages of one; null if there is none of that number.
  const Messages* find(int64_t number) const {
    if (number == number_) return &current_;
    const auto other = others_.find(number);
    return other == others_.end() ? nullptr : &other->second;
  }

 private:
  static constexpr int64_t kNone = -1;
  int64_t number_ = 0, last_ = 0;
  Messages current_;
  Messages restored_;                   ///< what new ones begin with
  std::map<int64_t, Messages> others_;  ///< that are not current
  int64_t ended_ = kNone;               ///< the current one, if it is to be forgotten
};

}  // namespace thimble
