#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "constraint/grammar.h"
#include "core/status.h"

namespace thimble {

/// A grammar as instructions of a nondeterministic automaton with a stack, after Thompson (1968).
struct Program {
  enum class Op : uint8_t {
    kByte,    ///< takes one byte of class a, then goes on at b
    kSplit,   ///< goes on at a and at b
    kEnter,   ///< goes on at the start of rule a, whose return is this rule's
    kCall,    ///< runs rule a, which takes at least one byte, then goes on at b
    kRepeat,  ///< runs rule a, as often as the kAgain behind it says, then goes on at b
    kAgain,   ///< at least a times, at most b times; each takes at least one byte
    kText,    ///< begins text a, which takes at least one byte, then goes on at b
    kInside,  ///< within the text of the kText before it
    kReturn,  ///< ends the rule
    kNever,   ///< ends nowhere
  };
  struct Instruction {
    Op op;
    uint32_t a = 0, b = 0;
  };

  std::vector<Instruction> code;
  std::vector<uint32_t> starts;  ///< the first instruction of each rule; rule 0 is the whole text
  /// For each rule a number that is larger than those of all rules that may call it before a byte
  /// was taken.
  std::vector<uint32_t> ranks;
  /// Bytes that no class tells apart have the same symbol.
  std::array<uint8_t, 256> symbol_of{};
  std::vector<uint8_t> byte_of;  ///< the first byte of each symbol
  std::vector<ByteSet> classes;  ///< sets of symbols
  std::vector<std::shared_ptr<const CountedText>> texts;
};

/// Compiles the texts of `node`. Fails, with what follows "the grammar ", if a rule calls itself
/// before it takes a byte, if no text matches, or if it is too large.
Result<Program> compile_program(const Grammar& grammar, Grammar::Node node);
/// The same; none if no text matches.
Result<std::optional<Program>> compile_texts(const Grammar& grammar, Grammar::Node node);

}  // namespace thimble
