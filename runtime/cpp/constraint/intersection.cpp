#include "constraint/intersection.h"

#include <map>
#include <string>
#include <utility>

namespace thimble {

Result<Grammar::Node> intersection(std::vector<Program> programs, Grammar* grammar) {
  std::vector<AutomatonPart> parts;
  for (Program& program : programs) parts.push_back({std::move(program), false});
  return difference(std::move(parts), grammar);
}

Result<Grammar::Node> difference(std::vector<AutomatonPart> parts, Grammar* grammar) {
  const Result<TextAutomaton> automaton = intersect(std::move(parts));
  if (!automaton.ok()) return automaton.status();
  return text_node(*automaton, /*erased=*/{}, grammar);
}

Grammar::Node text_node(const TextAutomaton& automaton, const ByteSet& erased, Grammar* grammar) {
  if (automaton.empty()) return grammar->nothing();
  // A state's rule says what may follow it.
  std::vector<Grammar::Rule> rules;
  for (uint32_t state = 0; state < automaton.states(); ++state) {
    rules.push_back(grammar->add_rule("intersection"));
  }
  for (uint32_t state = TextAutomaton::kStart; state < automaton.states(); ++state) {
    std::map<TextAutomaton::State, ByteSet> next;
    std::vector<Grammar::Node> choices;
    if (automaton.accepts[state]) choices.push_back(grammar->empty());
    for (size_t byte = 0; byte < 256; ++byte) {
      const TextAutomaton::State to = automaton.after(state, static_cast<uint8_t>(byte));
      if (to == TextAutomaton::kDead) continue;
      if (erased.test(byte)) choices.push_back(grammar->call(rules[to]));
      if (!erased.test(byte)) next[to].set(byte);
    }
    for (const auto& [to, bytes] : next) {
      choices.push_back(grammar->sequence({grammar->byte(bytes), grammar->call(rules[to])}));
    }
    grammar->define(rules[state], grammar->choice(std::move(choices)));
  }
  return grammar->call(rules[TextAutomaton::kStart]);
}

}  // namespace thimble
