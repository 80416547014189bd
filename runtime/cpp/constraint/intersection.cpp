#include "constraint/intersection.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "constraint/recognizer.h"

namespace thimble {
namespace {

constexpr size_t kMostStates = 20'000;

}  // namespace

Result<Grammar::Node> intersection(std::vector<Program> programs, Grammar* grammar) {
  std::vector<Recognizer> recognizers;
  for (Program& program : programs) recognizers.emplace_back(std::move(program));
  // A state is one of each; its rule says what may follow it.
  using States = std::vector<Recognizer::State>;
  std::map<States, Grammar::Rule> rules;
  std::vector<States> left;
  const auto rule_of = [&](const States& states) {
    const auto [place, is_new] = rules.try_emplace(states);
    if (is_new) {
      place->second = grammar->add_rule("intersection");
      left.push_back(states);
    }
    return place->second;
  };
  States start;
  for (const Recognizer& recognizer : recognizers) start.push_back(recognizer.start());
  const Grammar::Rule first = rule_of(start);
  while (!left.empty()) {
    const States states = left.back();
    left.pop_back();
    std::map<States, ByteSet> next;
    bool accepts = true;
    for (size_t i = 0; i < states.size(); ++i) {
      accepts = accepts && recognizers[i].accepts(states[i]);
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      States to;
      for (size_t i = 0; i < states.size(); ++i) {
        to.push_back(recognizers[i].next(states[i], static_cast<uint8_t>(byte)));
      }
      if (std::find(to.begin(), to.end(), Recognizer::kDead) == to.end()) next[to].set(byte);
    }
    std::vector<Grammar::Node> choices;
    if (accepts) choices.push_back(grammar->empty());
    for (const auto& [to, bytes] : next) {
      choices.push_back(grammar->sequence({grammar->byte(bytes), grammar->call(rule_of(to))}));
    }
    grammar->define(rules.at(states), grammar->choice(std::move(choices)));
    if (rules.size() > kMostStates) {
      return Status::error("takes more than " + std::to_string(kMostStates) + " states");
    }
  }
  return grammar->call(first);
}

}  // namespace thimble
