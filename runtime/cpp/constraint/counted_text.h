#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "constraint/text_automaton.h"

namespace thimble {

/// Texts of an automaton that are made of characters, from a least to a most number of them.
class CountedText {
 public:
  using State = TextAutomaton::State;

  /// What does not depend on the bounds: how many characters lead from each state to a text's end.
  struct Lengths {
    TextAutomaton automaton;
    std::vector<bool> ends_character;  ///< whether a state lies between two characters
    /// Whether `n` more characters may lead from a state to an end: by n, then by state. From
    /// `repeats_at` on they repeat.
    std::vector<std::vector<bool>> after;
    size_t repeats_at = 0;
    uint32_t farthest = 0;      ///< no state that goes on needs more characters than these
    uint32_t all_from = 0;      ///< with so many or more, every state leads to an end;
    bool has_all_from = false;  ///< if there is such a number
  };
  using Shared = std::shared_ptr<const Lengths>;

  /// \param whole_characters matches the texts of whole characters alone.
  static Result<Shared> lengths(std::vector<AutomatonPart> parts, Program whole_characters);

  CountedText(Shared lengths, uint64_t min, uint64_t max);

  const TextAutomaton& automaton() const { return lengths_->automaton; }
  bool empty() const;  ///< no text matches
  bool accepts(State state, uint32_t count) const {
    return automaton().accepts[state] && min_ <= count && count <= max_;
  }
  /// Whether texts may go on behind `count` whole characters.
  bool goes_on(State state, uint32_t count) const;
  /// The number of whole characters when a state was reached.
  uint32_t count_at(State state, uint32_t before) const {
    return lengths_->ends_character[state] && before < most_count_ ? before + 1 : before;
  }
  /// A number of characters after which texts of up to `length` bytes go on in the same way.
  uint32_t within(uint32_t count, uint32_t length) const;

 private:
  bool reaches_end(State state, uint64_t least, uint64_t most) const;

  Shared lengths_;
  uint64_t min_, max_;
  uint32_t most_count_;  ///< from where on numbers of characters are alike
};

}  // namespace thimble
