#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/counted_text.h"
#include "constraint/interner.h"
#include "constraint/program.h"
#include "constraint/seen_values.h"

namespace thimble {

/// A program run for all its paths at once, as an automaton whose states are made when they are
/// first reached.
///
/// A state is the set of (instruction, stack) pairs that wait for the next byte. Stacks are a graph
/// in which equal parts are one (Tomita, 1985): a stack is the set of (instruction to return to,
/// stack below) pairs, so that ambiguous grammars take polynomial space. Sets are numbered by their
/// content: a state is one number, free to copy, to keep and to compare, and the loop of a
/// repetition returns to the same state.
class Recognizer {
 public:
  using State = uint32_t;

  static constexpr State kDead = 0;  ///< no text goes on from here

  explicit Recognizer(Program program);

  State start() const { return start_; }
  const Program& program() const { return program_; }

  /// Whether the text may end here.
  bool accepts(State state) const { return accepts_[state]; }

  /// Whether the text may end here and cannot go on.
  bool ends(State state) const { return accepts_[state] && items_[state].size() == 1; }

  /// The state after one more byte.
  State next(State state, uint8_t byte) { return next_symbol(state, program_.symbol_of[byte]); }
  State next_symbol(State state, uint8_t symbol) {
    const State known = row(state)[symbol];
    return known != kUnknown ? known : compute(state, symbol);
  }

  /// The states after one more byte of each symbol, kUnknown where not computed yet. Valid until
  /// shrink().
  const State* row(State state);
  static constexpr State kUnknown = 0xFFFFFFFF;
  State compute(State state, uint8_t symbol);

  /// A state that allows the same texts of up to `length` bytes. Of the states of a long repetition
  /// it is the same one, as far as the limits of its count are further away.
  State within(State state, uint32_t length);

  /// Whether text may go on with one byte only: which; else -1.
  int only_byte(State state);

  /// Whether a text matches as a whole.
  bool matches(std::string_view text);

  /// Forgets what can be computed again, if it has become large.
  void shrink();
  /// Forgets every state, if they have become many or are full(); returns whether it did. Only
  /// start() is then a state.
  bool restart();
  /// Whether states were refused because they take more memory than is allowed. They are dead.
  bool full() const { return full_; }
  size_t bytes() const { return items_.bytes() + stacks_.bytes() + row_bytes_; }

 private:
  struct Pair {
    uint32_t at, stack;
  };
  static uint64_t packed(Pair pair) { return uint64_t{pair.at} << 32 | pair.stack; }
  static Pair unpacked(uint64_t value) {
    return {static_cast<uint32_t>(value >> 32), static_cast<uint32_t>(value)};
  }

  void begin();
  State after(State state, uint8_t symbol);
  State add_state();
  void call(uint32_t rule, Pair back);
  void repeat(Pair pair);
  /// Where in a text the item of a kInside is.
  struct Inside {
    TextAutomaton::State state;
    uint32_t count, below;
  };
  Inside inside(uint32_t stack) const;
  uint32_t stack_of(const Inside& inside);
  void wait_inside(uint32_t at, const Inside& inside);
  /// Goes on from a kInside with one more byte.
  void go_inside(Pair pair, uint8_t byte);
  uint32_t inside_within(Pair pair, uint32_t length, int levels);
  uint32_t stack_within(uint32_t stack, uint32_t length, int levels);
  void follow(Pair pair, bool returns);
  State close();

  Program program_;
  Interner items_;   ///< of states: what they wait for; an item of its own if they accept
  Interner stacks_;  ///< 0: the empty one; that of a kAgain is its count and the stack below;
                     ///< that of a kInside its state and such a stack
  bool counts_ = false;
  Interner asked_;  ///< of within(): a length and a state
  std::vector<State> within_;
  std::vector<bool> accepts_;
  std::vector<std::unique_ptr<State[]>> rows_;
  size_t row_bytes_ = 0;
  bool full_ = false;
  State start_ = kDead;

  // What close() works with.
  std::vector<Pair> left_;
  SeenValues seen_;
  std::vector<uint64_t> waiting_;
  bool accepting_ = false;
  std::vector<uint32_t> called_;                ///< rules
  std::vector<std::vector<uint64_t>> returns_;  ///< of each rule called
};

}  // namespace thimble
