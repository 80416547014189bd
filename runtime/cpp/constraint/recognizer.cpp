#include "constraint/recognizer.h"

#include <algorithm>
#include <array>

namespace thimble {
namespace {

using Op = Program::Op;

constexpr uint64_t kAccepts = ~uint64_t{0};
constexpr size_t kFewItems = 16;
constexpr size_t kFewReturns = 8;
constexpr int kLevels = 3;  // of a stack whose counts are looked at
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr size_t kMostWithin = size_t{1} << 18;
constexpr size_t kMostRowBytes = size_t{32} << 20;

void make_set(std::vector<uint64_t>* values) {
  std::sort(values->begin(), values->end());
  values->erase(std::unique(values->begin(), values->end()), values->end());
}

}  // namespace

Recognizer::Recognizer(Program program) : program_(std::move(program)) {
  returns_.resize(program_.starts.size());
  for (const Program::Instruction& code : program_.code) {
    counts_ |= code.op == Op::kAgain || code.op == Op::kText;
  }
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
  std::array<uint64_t, 256> takers{};
  for (size_t i = 0, texts = 0; i < count; ++i) {
    const uint64_t item = items_[state].begin()[i];
    if (item == kAccepts) continue;
    const auto [at, stack] = unpacked(item);
    const uint32_t taken = program_.code[at].a;
    const bool is_text = program_.code[at].op == Op::kInside;
    const TextAutomaton::State from = is_text ? inside(stack).state : 0;
    // States of a text in the lower half; with more than one text, each symbol by itself.
    const bool alone = is_text && texts++ > 0;
    for (size_t other = 0; other < symbols; ++other) {
      if (is_text) {
        takers[other] |=
            alone ? uint64_t{other} << 48
                  : program_.texts[taken]->automaton().after(from, program_.byte_of[other]);
      } else {
        takers[other] |= uint64_t{program_.classes[taken][other]} << (32 + i);
      }
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
    if (take.op == Op::kInside) {
      go_inside(pair, program_.byte_of[symbol]);
    } else if (program_.classes[take.a][symbol])
      left_.push_back({take.b, pair.stack});
  }
  return left_.empty() && waiting_.empty() ? kDead : close();
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
        call(code.a, {code.b, pair.stack});
        break;
      case Op::kRepeat:
        left_.push_back({pair.at + 1, stacks_.add({packed({0, pair.stack})})});
        break;
      case Op::kAgain:
        repeat(pair);
        break;
      case Op::kText:
        wait_inside(pair.at + 1, {TextAutomaton::kStart, 0, pair.stack});
        break;
      case Op::kInside:
        break;  // wait_inside() lets it wait
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

void Recognizer::call(uint32_t rule, Pair back) {
  if (returns_[rule].empty()) called_.push_back(rule);
  returns_[rule].push_back(packed(back));
}

/// Goes on from a kAgain.
void Recognizer::repeat(Pair pair) {
  const Program::Instruction& call_of = program_.code[pair.at - 1];
  const auto [op, min, max] = program_.code[pair.at];
  const auto [count, below] = unpacked(*stacks_[pair.stack].begin());
  if (count >= min) left_.push_back({call_of.b, below});
  if (count >= max) return;
  call(call_of.a, {pair.at, stacks_.add({packed({count + 1, below})})});
}

Recognizer::Inside Recognizer::inside(uint32_t stack) const {
  const auto [state, counted] = unpacked(*stacks_[stack].begin());
  const auto [count, below] = unpacked(*stacks_[counted].begin());
  return {state, count, below};
}

uint32_t Recognizer::stack_of(const Inside& inside) {
  const uint32_t counted = stacks_.add({packed({inside.count, inside.below})});
  return stacks_.add({packed({inside.state, counted})});
}

void Recognizer::wait_inside(uint32_t at, const Inside& inside) {
  const CountedText& text = *program_.texts[program_.code[at].a];
  if (!text.goes_on(inside.state, inside.count)) return;
  const uint64_t item = packed({at, stack_of(inside)});
  if (seen_.insert(item)) waiting_.push_back(item);
}

void Recognizer::go_inside(Pair pair, uint8_t byte) {
  const Program::Instruction& code = program_.code[pair.at];
  const CountedText& text = *program_.texts[code.a];
  Inside reached = inside(pair.stack);
  reached.state = text.automaton().after(reached.state, byte);
  if (reached.state == TextAutomaton::kDead) return;
  reached.count = text.count_at(reached.state, reached.count);
  if (text.accepts(reached.state, reached.count)) left_.push_back({code.b, reached.below});
  wait_inside(pair.at, reached);
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
    make_set(&returns);
    const uint32_t stack = stacks_.add(returns);
    returns.clear();
    follow({program_.starts[rule], stack}, /*returns=*/false);
  }
  std::sort(waiting_.begin(), waiting_.end());
  if (accepting_) waiting_.push_back(kAccepts);
  State state = kDead;
  if (!waiting_.empty() && items_.bytes() + stacks_.bytes() < kMostBytes) {
    state = add_state();
  } else {
    full_ = full_ || !waiting_.empty();
  }
  waiting_.clear();
  seen_.clear();
  accepting_ = false;
  return state;
}

/// The state of waiting_.
Recognizer::State Recognizer::add_state() {
  const State state = items_.add(waiting_);
  if (state == accepts_.size()) {
    accepts_.push_back(waiting_.back() == kAccepts);
    rows_.emplace_back();
  }
  return state;
}

Recognizer::State Recognizer::within(State state, uint32_t length) {
  if (!counts_ || items_.bytes() + stacks_.bytes() >= kMostBytes) return state;
  const uint32_t number = asked_.add({packed({length, state})});
  if (number < within_.size()) return within_[number];
  uint32_t stack = 0, moved = 0;  // mostly all items have the same one
  for (const uint64_t item : items_[state]) {
    const Pair pair = unpacked(item);
    if (item != kAccepts && program_.code[pair.at].op == Op::kInside) {
      waiting_.push_back(packed({pair.at, inside_within(pair, length, kLevels)}));
      continue;
    }
    if (item != kAccepts && pair.stack != stack) {
      stack = pair.stack;
      moved = stack_within(stack, length, kLevels);
    }
    waiting_.push_back(item == kAccepts ? item : packed({pair.at, moved}));
  }
  make_set(&waiting_);
  within_.push_back(waiting_.empty() ? state : add_state());
  waiting_.clear();
  return within_.back();
}

uint32_t Recognizer::inside_within(Pair pair, uint32_t length, int levels) {
  Inside moved = inside(pair.stack);
  moved.count = program_.texts[program_.code[pair.at].a]->within(moved.count, length);
  moved.below = stack_within(moved.below, length, levels);
  return stack_of(moved);
}

/// A stack with the counts of its upper levels moved away from limits that `length` calls do not
/// reach.
uint32_t Recognizer::stack_within(uint32_t stack, uint32_t length, int levels) {
  if (levels == 0 || stacks_[stack].size() > kFewReturns) return stack;
  std::vector<uint64_t> moved;
  for (size_t i = 0; i < stacks_[stack].size(); ++i) {
    Pair back = unpacked(stacks_[stack].begin()[i]);
    const auto [op, min, max] = program_.code[back.at];
    if (op == Op::kAgain) {
      Pair counted = unpacked(*stacks_[back.stack].begin());
      const uint64_t last = uint64_t{counted.at} + length;
      if (last < min) counted.at = 0;
      if (counted.at > min && last < max) counted.at = min;
      counted.stack = stack_within(counted.stack, length, levels - 1);
      back.stack = stacks_.add({packed(counted)});
    } else {
      back.stack = stack_within(back.stack, length, levels - 1);
    }
    moved.push_back(packed(back));
  }
  make_set(&moved);
  return stacks_.add(moved);
}

int Recognizer::only_byte(State state) {
  if (accepts(state)) return -1;
  int only = -1;
  for (int byte = 0; byte < 256; ++byte) {
    if (next(state, static_cast<uint8_t>(byte)) == kDead) continue;
    if (only >= 0) return -1;
    only = byte;
  }
  return only;
}

bool Recognizer::restart() {
  if (!full_ && items_.bytes() + stacks_.bytes() < kMostBytes / 2) return false;
  items_ = Interner();
  stacks_ = Interner();
  asked_ = Interner();
  within_.clear();
  rows_.clear();
  row_bytes_ = 0;
  full_ = false;
  begin();
  return true;
}

void Recognizer::shrink() {
  if (within_.size() > kMostWithin) {
    asked_ = Interner();
    within_.clear();
  }
  if (row_bytes_ < kMostRowBytes) return;
  for (std::unique_ptr<State[]>& row : rows_) row.reset();
  row_bytes_ = 0;
}

bool Recognizer::matches(std::string_view text) {
  State state = start_;
  for (const char c : text) state = next(state, static_cast<uint8_t>(c));
  return accepts_[state];
}

}  // namespace thimble
