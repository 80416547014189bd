#include "constraint/free_string_length.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace thimble {
namespace {

constexpr int kBudget = 1000;  // states to look at for one question

struct Range {
  uint8_t first, last;
};

/// The characters beyond ASCII in UTF-8 (Unicode standard, table 3-7), as ranges of their bytes.
constexpr std::array<std::array<Range, 4>, 8> kCharacters = {{
    {{{0xC2, 0xDF}, {0x80, 0xBF}, {}, {}}},
    {{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}, {}}},
    {{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}, {}}},
    {{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}, {}}},
    {{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}, {}}},
    {{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}},
    {{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}},
    {{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}},
}};

void make_unique(std::vector<Recognizer::State>* states) {
  std::sort(states->begin(), states->end());
  states->erase(std::unique(states->begin(), states->end()), states->end());
}

/// The states after a byte of a range; false if one is dead.
bool step(Recognizer& recognizer, const std::vector<Recognizer::State>& from, Range range,
          std::vector<Recognizer::State>* to) {
  const std::array<uint8_t, 256>& symbol_of = recognizer.program().symbol_of;
  for (const Recognizer::State state : from) {
    for (unsigned byte = range.first; byte <= range.last; ++byte) {
      const uint8_t symbol = symbol_of[byte];
      if (byte > range.first && symbol == symbol_of[byte - 1]) continue;
      const Recognizer::State next = recognizer.next_symbol(state, symbol);
      if (next == Recognizer::kDead) return false;
      if (to->empty() || to->back() != next) to->push_back(next);
    }
  }
  make_unique(to);
  return true;
}

constexpr std::array<Range, 3> kAscii = {{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x7E}}};

/// Whether no plain character is allowed.
bool allows_none(Recognizer& recognizer, Recognizer::State state) {
  const auto refuses = [&](Range range) {
    for (unsigned byte = range.first; byte <= range.last; ++byte) {
      if (recognizer.next(state, static_cast<uint8_t>(byte)) != Recognizer::kDead) return false;
    }
    return true;
  };
  return std::all_of(kAscii.begin(), kAscii.end(), refuses) && refuses({0xC2, 0xF4});
}

/// The states after one plain character; false if one is not allowed.
bool successors(Recognizer& recognizer, Recognizer::State state,
                std::vector<Recognizer::State>* states) {
  for (const Range range : kAscii) {
    if (!step(recognizer, {state}, range, states)) return false;
  }
  for (const std::array<Range, 4>& ranges : kCharacters) {
    std::vector<Recognizer::State> reached{state};
    for (const Range range : ranges) {
      if (range.last == 0) break;
      std::vector<Recognizer::State> next;
      if (!step(recognizer, reached, range, &next)) return false;
      reached.swap(next);
    }
    states->insert(states->end(), reached.begin(), reached.end());
  }
  make_unique(states);
  return true;
}

}  // namespace

bool FreeStringLength::allows(Recognizer& recognizer, Recognizer::State state, size_t count) {
  budget_ = kBudget;
  return count <= 255 && check(recognizer, state, count);
}

int FreeStringLength::exactly(Recognizer& recognizer, Recognizer::State state, int most) {
  if (allows(recognizer, state, static_cast<size_t>(most))) return most;
  return limit(recognizer, state, most);
}

/// What exactly() says, if it is less than `most`.
int FreeStringLength::limit(Recognizer& recognizer, Recognizer::State state, int most) {
  Known& limits = known(recognizer, state);  // stays where it is when others are added
  if (limits.is_exact_known) return limits.exactly;
  if (most == 0 || budget_ < 0) return -1;
  limits.is_exact_known = true;
  if (allows_none(recognizer, state)) {
    limits.exactly = 0;
  } else if (limits.next.size() == 1) {
    const int after = limit(recognizer, limits.next[0], most - 1);
    if (after >= 0) limits.exactly = after + 1;
  }
  return limits.exactly;
}

FreeStringLength::Known& FreeStringLength::known(Recognizer& recognizer, Recognizer::State state) {
  Known& known = known_[state];
  if (!known.is_new) return known;
  known.is_new = false;
  --budget_;
  if (!successors(recognizer, state, &known.next)) {
    known.refused = 1;
    known.next.clear();
  } else {
    // A state that leads to itself allows as many as its other successors do, and one more.
    const auto self = std::remove(known.next.begin(), known.next.end(), state);
    known.is_exact_known = self != known.next.end();  // there is no last one
    known.next.erase(self, known.next.end());
    known.allowed = known.next.empty() ? 255 : 1;
  }
  return known;
}

/// Goes at most `count` calls deep.
bool FreeStringLength::check(Recognizer& recognizer, Recognizer::State state, size_t count) {
  Known& limits = known(recognizer, state);  // stays where it is when others are added
  if (count <= limits.allowed) return true;
  if (count >= limits.refused || budget_ < 0) return false;
  const bool allowed = std::all_of(limits.next.begin(), limits.next.end(),
                                   [&](auto next) { return check(recognizer, next, count - 1); });
  if (allowed) {
    limits.allowed = static_cast<uint8_t>(count);
  } else if (budget_ >= 0) {
    limits.refused = static_cast<uint8_t>(count);
  }
  return allowed;
}

}  // namespace thimble
