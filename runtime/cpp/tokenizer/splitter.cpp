#include "tokenizer/splitter.h"

namespace thimble {
namespace {

enum Field { kBlocks, kClasses, kNumClasses, kTransitions, kKeepsGaps };

}  // namespace

Result<Splitter> Splitter::load(const FlatbufferTable& table) {
  const auto classes = table.vector<uint8_t>(kClasses);
  Result<CodePointMap> map = CodePointMap::load(table.vector<uint16_t>(kBlocks), classes);
  if (!map.ok()) return map.status();
  Splitter splitter;
  splitter.classes_ = *map;
  splitter.num_classes_ = table.scalar<uint16_t>(kNumClasses);
  splitter.transitions_ = table.vector<uint16_t>(kTransitions);
  splitter.keeps_gaps_ = table.scalar<uint8_t>(kKeepsGaps) != 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= splitter.num_classes_) {
      return Status::error("a splitter's character class is out of range");
    }
  }
  const size_t row = splitter.num_classes_ + 1;
  const size_t states = splitter.transitions_.size() / row;
  if (states <= kStart || states * row != splitter.transitions_.size()) {
    return Status::error("a splitter's transitions do not fill its states");
  }
  for (size_t i = 0; i < splitter.transitions_.size(); ++i) {
    if ((splitter.transitions_[i] & ~kMatch) >= states) {
      return Status::error("a splitter's transition leads to no state");
    }
  }
  return splitter;
}

}  // namespace thimble
