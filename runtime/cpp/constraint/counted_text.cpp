#include "constraint/counted_text.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "constraint/interruption.h"
#include "constraint/recognizer.h"

namespace thimble {
namespace {

using State = TextAutomaton::State;

/// Of each state, those between characters to which the character at hand may lead.
Result<std::vector<std::vector<State>>> character_ends(const CountedText::Lengths& lengths) {
  const TextAutomaton& all = lengths.automaton;
  std::vector<std::vector<State>> ends(all.states());
  std::vector<bool> known(all.states(), false);
  std::vector<State> left;
  for (State first = 1; first < all.states(); ++first) {
    const Status status = Interruption::check();
    if (!status.ok()) return status;
    left.push_back(first);
    while (!left.empty()) {
      const State state = left.back();
      const size_t others = left.size();
      std::vector<State>& own = ends[state];
      const State* row = &all.next[state * all.symbols];
      State last = TextAutomaton::kDead;
      for (uint32_t symbol = 0; symbol < all.symbols && !known[state]; ++symbol) {
        if (row[symbol] == last || row[symbol] == TextAutomaton::kDead) continue;
        last = row[symbol];
        if (lengths.ends_character[last]) {
          own.push_back(last);
        } else if (known[last]) {
          own.insert(own.end(), ends[last].begin(), ends[last].end());
        } else {
          left.push_back(last);
        }
      }
      if (left.size() > others) {
        own.clear();
        continue;
      }
      left.pop_back();
      if (known[state]) continue;
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      known[state] = true;
    }
  }
  return ends;
}

}  // namespace

Result<CountedText::Shared> CountedText::lengths(std::vector<AutomatonPart> parts,
                                                 Program whole_characters) {
  constexpr size_t kMostKnown = size_t{1} << 26;  // bits of `after`
  Recognizer characters(whole_characters);
  parts.push_back({std::move(whole_characters), false});
  Result<TextAutomaton> automaton = intersect(std::move(parts));
  if (!automaton.ok()) return automaton.status();
  auto lengths = std::make_shared<Lengths>();
  lengths->automaton = std::move(*automaton);
  const TextAutomaton& all = lengths->automaton;
  const uint32_t count = all.states();
  // Which states lie between characters: the same for each text that leads to one.
  std::vector<Recognizer::State> place(count, Recognizer::kDead);
  std::vector<State> left;
  lengths->ends_character.assign(count, false);
  if (!all.empty()) {
    place[TextAutomaton::kStart] = characters.start();
    left.push_back(TextAutomaton::kStart);
  }
  std::vector<uint8_t> bytes(all.symbols);
  for (size_t byte = 256; byte-- > 0;) bytes[all.symbol_of[byte]] = static_cast<uint8_t>(byte);
  while (!left.empty()) {
    const State state = left.back();
    left.pop_back();
    lengths->ends_character[state] = characters.accepts(place[state]);
    for (const uint8_t byte : bytes) {
      const State to = all.after(state, byte);
      if (to == TextAutomaton::kDead || place[to] != Recognizer::kDead) continue;
      place[to] = characters.next(place[state], byte);
      left.push_back(to);
    }
  }
  const Result<std::vector<std::vector<State>>> found = character_ends(*lengths);
  if (!found.ok()) return found.status();
  const std::vector<std::vector<State>>& ends = *found;
  std::unordered_map<std::vector<bool>, size_t> known;
  std::vector<bool> level = all.accepts, reached(count, false);
  for (;;) {
    const Status status = Interruption::check();
    if (!status.ok()) return status;
    const size_t n = lengths->after.size();
    bool complete = true;
    for (State state = 1; state < count; ++state) {
      if (n > 0 && level[state] && !reached[state]) {
        lengths->farthest = static_cast<uint32_t>(n);
        reached[state] = true;
      }
      complete = complete && level[state];
    }
    const auto [place_of, is_new] = known.try_emplace(level, n);
    if (!is_new) {
      lengths->repeats_at = place_of->second;
      break;
    }
    if ((n + 1) * count > kMostKnown)
      return Status::error("takes more than " + std::to_string(kMostKnown) + " steps");
    if (!complete) lengths->all_from = static_cast<uint32_t>(n + 1);
    std::vector<bool> next(count, false);
    for (State state = 1; state < count; ++state) {
      next[state] = std::any_of(ends[state].begin(), ends[state].end(),
                                [&level](State to) { return level[to]; });
    }
    lengths->after.push_back(std::move(level));
    level = std::move(next);
  }
  lengths->has_all_from = lengths->all_from <= lengths->repeats_at;
  return Shared(std::move(lengths));
}

CountedText::CountedText(Shared lengths, uint64_t min, uint64_t max)
    : lengths_(std::move(lengths)),
      min_(std::min(min, Grammar::kMostCount)),
      max_(max > Grammar::kMostCount ? Grammar::kUnlimited : max),
      most_count_(static_cast<uint32_t>(max_ == Grammar::kUnlimited ? min_ : max_)) {}

bool CountedText::empty() const {
  return automaton().empty() ||
         (!accepts(TextAutomaton::kStart, 0) && !goes_on(TextAutomaton::kStart, 0));
}

bool CountedText::goes_on(State state, uint32_t count) const {
  const uint64_t least = min_ > count ? min_ - count : 0;
  return count <= max_ && reaches_end(state, std::max<uint64_t>(least, 1), max_ - count);
}

bool CountedText::reaches_end(State state, uint64_t least, uint64_t most) const {
  const std::vector<std::vector<bool>>& after = lengths_->after;
  const size_t first = lengths_->repeats_at, period = after.size() - first;
  for (uint64_t tried = 0; tried <= after.size() && least + tried <= most; ++tried) {
    const uint64_t n = least + tried;
    if (after[n < first ? n : first + (n - first) % period][state]) return true;
  }
  return false;
}

uint32_t CountedText::within(uint32_t count, uint32_t length) const {
  const uint64_t last = uint64_t{count} + length;
  if (count >= min_ && last + lengths_->farthest <= max_) return static_cast<uint32_t>(min_);
  if (last < min_ && lengths_->has_all_from && last + lengths_->all_from <= max_) return 0;
  return count;
}

}  // namespace thimble
