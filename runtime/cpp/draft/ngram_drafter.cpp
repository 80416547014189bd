#include "draft/ngram_drafter.h"

#include <algorithm>
#include <utility>

namespace thimble {
namespace {

/// Tokens of a guess, and so of what is learned from it.
constexpr size_t kMostGuessed = 16;

}  // namespace

NgramDrafter::NgramDrafter(std::vector<int32_t> source) : source_(std::move(source)) {
  for (const int32_t token : source_) add(token);
}

/// FNV-1a, a token at a time; a wrong match is only a wrong guess.
uint64_t NgramDrafter::key(size_t count, size_t end) const {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = end - count; i < end; ++i) {
    hash = (hash ^ static_cast<uint32_t>(text_[i])) * 0x100000001B3u;
  }
  return hash;
}

void NgramDrafter::follow(const std::vector<int32_t>& tokens) {
  const auto begin = text_.begin() + static_cast<std::ptrdiff_t>(source_.size());
  const bool grows = source_.size() + tokens.size() >= text_.size() &&
                     std::equal(begin, text_.end(), tokens.begin());
  if (grows) {
    depths_[guessed_by_].learn(guess_, tokens, guessed_at_);
  } else {
    text_.clear();
    for (auto& places : places_) places.clear();
    for (const int32_t token : source_) add(token);
  }
  guess_.clear();
  for (size_t i = text_.size() - source_.size(); i < tokens.size(); ++i) add(tokens[i]);
}

void NgramDrafter::add(int32_t token) {
  // A sequence is known as soon as something follows it.
  for (size_t count = kShortest; count <= std::min(kLongest, text_.size()); ++count) {
    places_[count][key(count, text_.size())] = text_.size();
  }
  text_.push_back(token);
}

size_t NgramDrafter::find(size_t* next) const {
  for (size_t count = std::min(kLongest, text_.size()); count >= kShortest; --count) {
    const auto place = places_[count].find(key(count, text_.size()));
    if (place == places_[count].end()) continue;
    *next = place->second;
    return count;
  }
  return 0;
}

Result<std::vector<int32_t>> NgramDrafter::propose(const std::vector<int32_t>& tokens, size_t most,
                                                   const CallCosts& costs, const Sampler&) {
  follow(tokens);
  size_t next = 0;
  guessed_by_ = find(&next);
  guessed_at_ = tokens.size();
  if (guessed_by_ == 0) return std::vector<int32_t>();
  // Where the place is near the end, what follows it repeats.
  for (size_t i = 0; i < kMostGuessed; ++i) {
    const size_t at = next + i;
    guess_.push_back(at < text_.size() ? text_[at] : guess_[at - text_.size()]);
  }
  const size_t depth = depths_[guessed_by_].choose(std::min(most, kMostGuessed), costs.row());
  return std::vector<int32_t>(guess_.begin(), guess_.begin() + static_cast<std::ptrdiff_t>(depth));
}

}  // namespace thimble
