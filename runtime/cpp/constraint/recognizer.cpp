#include "constraint/recognizer.h"

#include <algorithm>
#include <array>

namespace thimble {
namespace {

using Op = Program::Op;

constexpr uint64_t kAccepts = ~uint64_t{0};
constexpr size_t kFewItems = 16;
constexpr size_t kMostBytes = size_t{128} << 20;
constexpr size_t kMostRowBytes = size_t{32} << 20;

}  // namespace

Recognizer::Recognizer(Program program) : program_(std::move(program)) {
  (void)items_.add({});   // kDead
  (void)stacks_.add({});  // returns nowhere
  accepts_.push_back(false);
  rows_.resize(1);
  returns_.resize(program_.starts.size());
  left_.push_back({program_.starts[0], 0});
  start_ = close();
}

const Recognizer::State* Recognizer::row(State state) {
  std::unique_ptr<State[]>& row = rows_[state];
  if (row == nullptr) {
    const size_t symbols = program_.byte_of.size();
    row = std::make_unique<State[]>(symbols);
    std::fill_n(row.get(), symbols, state == kDead ? kDead : kUnknown);
    row_bytes_ += symbols * sizeof(State);
  }
  return row.get();
}

Recognizer::State Recognizer::compute(State state, uint8_t symbol) {
  const Interner::List items = items_[state];
  const auto takes = [this](uint64_t item, size_t with) {
    return item != kAccepts && program_.classes[program_.code[unpacked(item).at].a][with];
  };
  // Symbols that the same items take lead to the same state, so they are filled in together.
  const size_t symbols = program_.byte_of.size();
  std::array<uint8_t, 256> alike;
  size_t count = 0;
  for (size_t other = 0; items.size() <= kFewItems && other < symbols; ++other) {
    const bool equal = std::all_of(items.begin(), items.end(), [&](uint64_t item) {
      return takes(item, symbol) == takes(item, other);
    });
    if (equal) alike[count++] = static_cast<uint8_t>(other);
  }
  if (count == 0) alike[count++] = symbol;
  for (const uint64_t item : items) {
    if (!takes(item, symbol)) continue;
    const Pair pair = unpacked(item);
    left_.push_back({program_.code[pair.at].b, pair.stack});
  }
  const State next = left_.empty() ? kDead : close();
  (void)row(state);
  for (size_t i = 0; i < count; ++i) rows_[state][alike[i]] = next;
  return next;
}

/// Goes on from a pair until bytes are needed. `returns` is false for a rule that was called at
/// this place, which cannot end here: the call is skipped elsewhere if it may be.
void Recognizer::follow(Pair first, bool returns) {
  left_.push_back(first);
  while (!left_.empty()) {
    const Pair pair = left_.back();
    left_.pop_back();
    const Program::Instruction& code = program_.code[pair.at];
    if (code.op == Op::kNever || !seen_.insert(packed(pair))) continue;
    switch (code.op) {
      case Op::kByte:
        waiting_.push_back(packed(pair));
        break;
      case Op::kSplit:
        left_.push_back({code.b, pair.stack});
        left_.push_back({code.a, pair.stack});
        break;
      case Op::kEnter:
        left_.push_back({program_.starts[code.a], pair.stack});
        break;
      case Op::kCall:
        if (returns_[code.a].empty()) called_.push_back(code.a);
        returns_[code.a].push_back(packed({code.b, pair.stack}));
        break;
      case Op::kReturn:
        if (!returns) break;
        if (pair.stack == 0) accepting_ = true;
        for (const uint64_t below : stacks_[pair.stack]) left_.push_back(unpacked(below));
        break;
      case Op::kNever:
        break;
    }
  }
}

/// The state of all that left_ leads to.
Recognizer::State Recognizer::close() {
  std::vector<Pair> first;
  first.swap(left_);
  for (const Pair pair : first) follow(pair, /*returns=*/true);
  // Rules in the order of their ranks: when one starts, all calls of it at this place are known.
  while (!called_.empty()) {
    const auto place = std::min_element(
        called_.begin(), called_.end(),
        [this](uint32_t a, uint32_t b) { return program_.ranks[a] < program_.ranks[b]; });
    const uint32_t rule = *place;
    *place = called_.back();
    called_.pop_back();
    std::vector<uint64_t>& returns = returns_[rule];
    std::sort(returns.begin(), returns.end());
    returns.erase(std::unique(returns.begin(), returns.end()), returns.end());
    const uint32_t stack = stacks_.add(returns);
    returns.clear();
    follow({program_.starts[rule], stack}, /*returns=*/false);
  }
  std::sort(waiting_.begin(), waiting_.end());
  if (accepting_) waiting_.push_back(kAccepts);
  State state = kDead;
  if (!waiting_.empty() && items_.bytes() + stacks_.bytes() < kMostBytes) {
    state = items_.add(waiting_);
    if (state == accepts_.size()) {
      accepts_.push_back(accepting_);
      rows_.emplace_back();
    }
  } else {
    full_ = full_ || !waiting_.empty();
  }
  waiting_.clear();
  seen_.clear();
  accepting_ = false;
  return state;
}

int Recognizer::only_byte(State state) const {
  int only = -1;
  for (const uint64_t item : items_[state]) {
    if (item == kAccepts) return -1;
    const ByteSet& symbols = program_.classes[program_.code[unpacked(item).at].a];
    if (symbols.count() != 1) return -1;
    for (int byte = 0; byte < 256; ++byte) {
      if (!symbols[program_.symbol_of[static_cast<size_t>(byte)]]) continue;
      if (only >= 0 && only != byte) return -1;
      only = byte;
    }
  }
  return only;
}

void Recognizer::shrink() {
  if (row_bytes_ < kMostRowBytes) return;
  for (std::unique_ptr<State[]>& row : rows_) row.reset();
  row_bytes_ = 0;
}

}  // namespace thimble
