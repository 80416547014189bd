#include "constraint/masks.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

constexpr size_t kMostKeptBytes = size_t{16} << 20;

}  // namespace

const TokenMask& Masks::at(Recognizer::State state) {
  const auto place = kept_.find(state);
  if (place != kept_.end()) return place->second;
  const size_t bytes_each = vocabulary_.size() / 8 + 64;
  if (kept_.size() * bytes_each > kMostKeptBytes) kept_.clear();
  recognizer_.shrink();
  return kept_.emplace(state, compute(state)).first->second;
}

void Masks::clear() {
  kept_.clear();
  reach_ = PlainReach();
}

TokenMask Masks::compute(Recognizer::State state) {
  TokenMask mask(vocabulary_.size());
  vocabulary_.other().walk(recognizer_, state, &mask);
  // From the longest on: where many characters are allowed, so are fewer.
  for (auto group = vocabulary_.groups().rbegin(); group != vocabulary_.groups().rend(); ++group) {
    if (reach_.allows(recognizer_, state, group->most_characters)) {
      mask.add(group->mask);
    } else {
      group->trie.walk(recognizer_, state, &mask);
    }
  }
  if (recognizer_.accepts(state)) {
    for (const int32_t end : vocabulary_.ends()) mask.set(static_cast<size_t>(end));
  }
  return mask;
}

}  // namespace thimble
