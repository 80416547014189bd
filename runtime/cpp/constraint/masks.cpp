#include "constraint/masks.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

constexpr size_t kMostKeptBytes = size_t{16} << 20;

/// Of a mask that is kept: of all tokens (part 0), or of a group's. A recognizer has not memory for
/// states beyond 28 bits.
uint32_t key_of(Recognizer::State state, size_t part) {
  static_assert(2 * Vocabulary::kMostGroups < 16, "parts in four bits");
  return state << 4 | static_cast<uint32_t>(part);
}

}  // namespace

const TokenMask& Masks::at(Recognizer::State state) {
  if (!vocabulary_.groups().empty()) {
    state = recognizer_.within(state, vocabulary_.groups().back().most_bytes);
  }
  const size_t bytes_each = vocabulary_.size() / 8 + 64;
  if (kept_.size() * bytes_each > kMostKeptBytes) kept_.clear();
  TokenMask& kept = kept_[key_of(state, 0)];  // stays where it is when others are added
  if (!kept.words().empty()) return kept;
  recognizer_.shrink();
  kept = TokenMask(vocabulary_.size());
  compute(state, &kept);
  return kept;
}

void Masks::clear() {
  kept_.clear();
  reach_ = FreeStringLength();
}

void Masks::compute(Recognizer::State state, TokenMask* mask) {
  constexpr auto kMost = static_cast<int>(Vocabulary::kMostCharacters);
  const int plain = reach_.exactly(recognizer_, state, kMost);
  if (plain >= 0) mask->add(vocabulary_.plain(static_cast<size_t>(plain)));
  // From the longest on: where many characters are allowed, so are fewer.
  for (size_t i = vocabulary_.groups().size(); i-- > 0;) {
    const Vocabulary::Group& group = vocabulary_.groups()[i];
    const Recognizer::State like = recognizer_.within(state, group.most_bytes);
    if (like == state) {
      compute(group, plain < 0, state, mask);
      continue;
    }
    TokenMask& kept = kept_[key_of(like, 2 * i + (plain < 0 ? 1 : 2))];
    if (kept.words().empty()) {
      kept = TokenMask(vocabulary_.size());
      compute(group, plain < 0, like, &kept);
    }
    mask->add(kept);
  }
  if (recognizer_.accepts(state)) {
    for (const int32_t end : vocabulary_.ends()) mask->set(static_cast<size_t>(end));
  }
}

void Masks::compute(const Vocabulary::Group& group, bool plain, Recognizer::State state,
                    TokenMask* mask) {
  group.other.walk(recognizer_, state, mask);
  if (!plain) return;
  if (reach_.allows(recognizer_, state, group.most_characters)) {
    mask->add(vocabulary_.plain(group.most_characters));
  } else {
    group.plain.walk(recognizer_, state, mask);
  }
}

}  // namespace thimble
