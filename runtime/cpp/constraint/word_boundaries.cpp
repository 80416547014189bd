#include "constraint/word_boundaries.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "constraint/character_properties.h"
#include "constraint/intersection.h"
#include "constraint/regex_syntax.h"

namespace thimble {
namespace {

constexpr int kMostMarks = 3;  // in a row: no end of them, or they would lead back to themselves

enum Demand { kNone, kBoundary, kNoBoundary };

/// Any text with marks where they may be.
Grammar::Node marked_texts(const CharacterNode& character, Grammar* grammar) {
  const std::array<Grammar::Node, 2> next = {character(grammar, word_characters().complement()),
                                             character(grammar, word_characters())};
  // What may follow, by whether the last character is a word's, what the last marks demand, and
  // how many they are.
  Grammar::Rule rules[2][3][kMostMarks + 1];
  const auto each = [&](const auto& visit) {
    for (int word = 0; word < 2; ++word) {
      for (int demand = 0; demand < 3; ++demand) {
        for (int marks = 0; marks <= kMostMarks; ++marks) visit(word, demand, marks);
      }
    }
  };
  each([&](int word, int demand, int marks) {
    rules[word][demand][marks] = grammar->add_rule("word boundary");
  });
  each([&](int word, int demand, int marks) {
    std::vector<Grammar::Node> choices;
    const auto may_follow = [&](int other) {
      return demand == kNone || (demand == kBoundary) == (word != other);
    };
    if (may_follow(0)) choices.push_back(grammar->empty());
    for (int other = 0; other < 2; ++other) {
      if (!may_follow(other)) continue;
      choices.push_back(grammar->sequence(
          {next[static_cast<size_t>(other)], grammar->call(rules[other][kNone][0])}));
    }
    for (const auto& [mark, following] :
         {std::pair{kBoundaryMark, kBoundary}, {kNoBoundaryMark, kNoBoundary}}) {
      if (marks == kMostMarks || (demand != kNone && demand != following)) continue;
      choices.push_back(grammar->sequence({grammar->literal(std::string_view(&mark, 1)),
                                           grammar->call(rules[word][following][marks + 1])}));
    }
    grammar->define(rules[word][demand][marks], grammar->choice(std::move(choices)));
  });
  return grammar->call(rules[0][kNone][0]);
}

}  // namespace

Result<Grammar::Node> hold_boundaries(Program marked, const CharacterNode& character,
                                      Grammar* grammar) {
  Grammar own;
  Result<Program> right = compile_program(own, marked_texts(character, &own));
  if (!right.ok()) return right.status();
  std::vector<AutomatonPart> parts;
  parts.push_back({std::move(marked), false});
  parts.push_back({std::move(*right), false});
  const Result<TextAutomaton> automaton = intersect(std::move(parts));
  if (!automaton.ok()) return automaton.status();
  ByteSet marks;
  for (const char mark : {kBoundaryMark, kNoBoundaryMark}) marks.set(static_cast<uint8_t>(mark));
  return text_node(*automaton, marks, grammar);
}

}  // namespace thimble
