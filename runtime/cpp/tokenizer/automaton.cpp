#include "tokenizer/automaton.h"

namespace thimble {
namespace {

enum Field { kBlocks, kClasses, kNumClasses, kTransitions };

}  // namespace

Result<Automaton> Automaton::load(const FlatbufferTable& table) {
  const auto classes = table.vector<uint8_t>(kClasses);
  Result<CodePointMap> map = CodePointMap::load(table.vector<uint16_t>(kBlocks), classes);
  if (!map.ok()) return map.status();
  Automaton automaton;
  automaton.classes_ = *map;
  automaton.num_classes_ = table.scalar<uint16_t>(kNumClasses);
  automaton.transitions_ = table.vector<uint16_t>(kTransitions);
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= automaton.num_classes_) {
      return Status::error("a pattern's character class is out of range");
    }
  }
  const size_t row = automaton.num_classes_ + 1;
  const size_t states = automaton.transitions_.size() / row;
  if (states <= kStart || states * row != automaton.transitions_.size()) {
    return Status::error("a pattern's transitions do not fill its states");
  }
  for (size_t i = 0; i < automaton.transitions_.size(); ++i) {
    if ((automaton.transitions_[i] & ~kMatch) >= states) {
      return Status::error("a pattern's transition leads to no state");
    }
  }
  return automaton;
}

}  // namespace thimble
