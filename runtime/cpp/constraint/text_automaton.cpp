#include "constraint/text_automaton.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "constraint/interner.h"
#include "constraint/interruption.h"
#include "constraint/recognizer.h"

namespace thimble {
namespace {

/// Bytes that no recognizer tells apart have the same symbol; their number.
uint32_t join_symbols(const std::vector<Recognizer>& recognizers,
                      std::array<uint8_t, 256>* symbol_of) {
  std::map<std::vector<uint8_t>, uint8_t> known;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::vector<uint8_t> each;
    for (const Recognizer& one : recognizers) each.push_back(one.program().symbol_of[byte]);
    const auto next = static_cast<uint8_t>(known.size());
    (*symbol_of)[byte] = known.try_emplace(std::move(each), next).first->second;
  }
  return static_cast<uint32_t>(known.size());
}

/// Takes out the states from which no text matches.
void trim(TextAutomaton* automaton) {
  const uint32_t count = automaton->states(), symbols = automaton->symbols;
  std::vector<std::vector<uint32_t>> before(count);
  for (uint32_t state = 1; state < count; ++state) {
    for (uint32_t symbol = 0; symbol < symbols; ++symbol) {
      const uint32_t to = automaton->next[state * symbols + symbol];
      if (to != TextAutomaton::kDead && (before[to].empty() || before[to].back() != state)) {
        before[to].push_back(state);
      }
    }
  }
  std::vector<uint32_t> number(count, 0), left;
  for (uint32_t state = 1; state < count; ++state) {
    if (automaton->accepts[state]) left.push_back(state);
  }
  for (const uint32_t state : left) number[state] = 1;
  while (!left.empty()) {
    const uint32_t state = left.back();
    left.pop_back();
    for (const uint32_t other : before[state]) {
      if (number[other] != 0) continue;
      number[other] = 1;
      left.push_back(other);
    }
  }
  uint32_t kept = 1;
  if (count < 2 || number[TextAutomaton::kStart] == 0) std::fill(number.begin(), number.end(), 0);
  for (uint32_t state = 1; state < count; ++state) {
    if (number[state] != 0) number[state] = kept++;
  }
  for (uint32_t state = 1; state < count; ++state) {
    if (number[state] == 0) continue;
    automaton->accepts[number[state]] = automaton->accepts[state];
    for (uint32_t symbol = 0; symbol < symbols; ++symbol) {
      automaton->next[number[state] * symbols + symbol] =
          number[automaton->next[state * symbols + symbol]];
    }
  }
  automaton->accepts.resize(kept);
  automaton->next.resize(size_t{kept} * symbols);
}

Status too_large(size_t most) {
  return Status::error("takes more than " + std::to_string(most) + " states");
}

}  // namespace

Result<TextAutomaton> intersect(std::vector<AutomatonPart> parts, size_t most) {
  std::vector<Recognizer> recognizers;
  std::vector<bool> excluded;
  for (AutomatonPart& part : parts) {
    recognizers.emplace_back(std::move(part.program));
    excluded.push_back(part.excluded);
  }
  TextAutomaton automaton;
  automaton.symbols = join_symbols(recognizers, &automaton.symbol_of);
  std::array<uint8_t, 256> byte_of{};
  for (size_t byte = 256; byte-- > 0;) {
    byte_of[automaton.symbol_of[byte]] = static_cast<uint8_t>(byte);
  }
  // A state is one of each; numbers are those of the list.
  Interner states;
  std::vector<uint64_t> list, last;
  (void)states.add(list);  // kDead
  for (const Recognizer& recognizer : recognizers) list.push_back(recognizer.start());
  (void)states.add(list);
  for (uint32_t state = 0; state < states.size(); ++state) {
    if (state > most) return too_large(most);
    const Status status = Interruption::check();
    if (!status.ok()) return status;
    bool accepts = state != TextAutomaton::kDead;
    for (size_t i = 0; accepts && i < recognizers.size(); ++i) {
      const auto own = static_cast<Recognizer::State>(states[state].begin()[i]);
      accepts = recognizers[i].accepts(own) != excluded[i];
    }
    automaton.accepts.push_back(accepts);
    TextAutomaton::State to_last = TextAutomaton::kDead;
    last.clear();
    for (uint32_t symbol = 0; symbol < automaton.symbols; ++symbol) {
      list.clear();
      for (size_t i = 0; state != TextAutomaton::kDead && i < recognizers.size(); ++i) {
        const auto own = static_cast<Recognizer::State>(states[state].begin()[i]);
        const Recognizer::State to = recognizers[i].next(own, byte_of[symbol]);
        list.push_back(to);
        if (to != Recognizer::kDead || excluded[i]) continue;
        list.clear();
        break;
      }
      if (list != last) {  // most symbols lead where the one before them does
        to_last = states.add(list);
        last.swap(list);
      }
      automaton.next.push_back(to_last);
    }
  }
  for (const Recognizer& recognizer : recognizers) {
    if (recognizer.full()) return too_large(most);
  }
  trim(&automaton);
  return automaton;
}

}  // namespace thimble
