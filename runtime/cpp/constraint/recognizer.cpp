#include "constraint/recognizer.h"

#include <algorithm>
#include <array>

namespace thimble {
namespace {

using Op = Program::Op;

constexpr uint64_t kAccepts = ~uint64_t{0};
constexpr size_t kFewItems = 16;
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr size_t kMostRowBytes = size_t{32} << 20;

}  // namespace

Recognizer::Recognizer(Program program) : program_(std::move(program)) {
  returns_.resize(program_.starts.size());
  begin();
}

void Recognizer::begin() {
  (void)items_.add({});   // kDead
  (void)stacks_.add({});  // returns nowhere
  accepts_.assign(1, false);
  rows_.resize(1);
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
  (void)row(state);
  const size_t count = items_[state].size();
  if (count > kFewItems) {
    const State next = after(state, symbol);
    rows_[state][symbol] = next;
    return next;
  }
  // Symbols that the same items take lead to the same state: all are filled in together.
  const size_t symbols = program_.byte_of.size();
  std::array<uint32_t, 256> takers{};
  for (size_t i = 0; i < count; ++i) {
    const uint64_t item = items_[state].begin()[i];
    if (item == kAccepts) continue;
    const ByteSet& taken = program_.classes[program_.code[unpacked(item).at].a];
    for (size_t other = 0; other < symbols; ++other) {
      takers[other] |= static_cast<uint32_t>(taken[other]) << i;
    }
  }
  for (size_t other = 0; other < symbols; ++other) {
    const auto same = std::find(takers.begin(), takers.begin() + other, takers[other]);
    const auto first = static_cast<size_t>(same - takers.begin());
    const State next =
        first < other ? rows_[state][first] : after(state, static_cast<uint8_t>(other));
    rows_[state][other] = next;
  }
  return rows_[state][symbol];
}

/// The state after one more byte, made if it is new.
Recognizer::State Recognizer::after(State state, uint8_t symbol) {
  for (const uint64_t item : items_[state]) {
    if (item == kAccepts) continue;
    const Pair pair = unpacked(item);
    const Program::Instruction& take = program_.code[pair.at];
    if (program_.classes[take.a][symbol]) left_.push_back({take.b, pair.stack});
  }
  return left_.empty() ? kDead : close();
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

bool Recognizer::restart() {
  if (!full_ && items_.bytes() + stacks_.bytes() < kMostBytes / 2) return false;
  items_ = Interner();
  stacks_ = Interner();
  rows_.clear();
  row_bytes_ = 0;
  full_ = false;
  begin();
  return true;
}

void Recognizer::shrink() {
  if (row_bytes_ < kMostRowBytes) return;
  for (std::unique_ptr<State[]>& row : rows_) row.reset();
  row_bytes_ = 0;
}

bool program_matches(Program program, std::string_view text) {
  Recognizer recognizer(std::move(program));
  Recognizer::State state = recognizer.start();
  for (const char c : text) state = recognizer.next(state, static_cast<uint8_t>(c));
  return recognizer.accepts(state);
}

}  // namespace thimble
