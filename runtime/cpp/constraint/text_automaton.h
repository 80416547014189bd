#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "constraint/grammar.h"
#include "constraint/program.h"
#include "core/status.h"

namespace thimble {

/// A deterministic automaton over bytes, without states from which no text matches.
struct TextAutomaton {
  using State = uint32_t;

  static constexpr State kDead = 0;
  static constexpr State kStart = 1;

  /// Bytes that it does not tell apart have the same symbol.
  std::array<uint8_t, 256> symbol_of{};
  uint32_t symbols = 0;
  std::vector<State> next;    ///< the state after a state and a symbol, row by row
  std::vector<bool> accepts;  ///< whether a text may end in a state; as many as states

  uint32_t states() const { return static_cast<uint32_t>(accepts.size()); }
  bool empty() const { return states() < 2; }  ///< no text matches
  State after(State state, uint8_t byte) const { return next[state * symbols + symbol_of[byte]]; }
};

/// What the texts of an intersection are, or are not.
struct AutomatonPart {
  Program program;
  bool excluded = false;
};

constexpr size_t kMostStates = 60'000;

/// The texts that all parts match which are not excluded, and no excluded one; one part at least is
/// not. Fails, with what follows a noun, if it takes more states than `most`.
Result<TextAutomaton> intersect(std::vector<AutomatonPart> parts, size_t most = kMostStates);

}  // namespace thimble
