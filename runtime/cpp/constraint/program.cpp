#include "constraint/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "constraint/counted_text.h"
#include "constraint/left_recursion.h"

namespace thimble {
namespace {

using Op = Program::Op;

constexpr uint64_t kMostInstructions = 1'000'000;
constexpr uint32_t kReturnAt = 0;  // all rules share one
constexpr uint32_t kNeverAt = 1;

class Compiler {
 public:
  explicit Compiler(const Grammar& grammar) : grammar_(grammar) {}

  Result<std::optional<Program>> compile(Grammar::Node node) {
    uint64_t size = grammar_.node(node).size;
    for (const Grammar::RuleData& rule : grammar_.rules()) size += grammar_.node(rule.node).size;
    if (size > kMostInstructions) {
      return Status::error("is too large: it has more than " + std::to_string(kMostInstructions) +
                           " steps");
    }
    add_classes();
    program_.texts = grammar_.texts();
    program_.code = {{Op::kReturn}, {Op::kNever}};
    program_.starts.push_back(emit(node, kReturnAt));
    for (const Grammar::RuleData& rule : grammar_.rules()) {
      program_.starts.push_back(emit(rule.node, kReturnAt));
    }
    prune();
    if (!productive_[program_.starts[0]]) return std::optional<Program>();
    skip_empty_rules();
    Result<std::vector<uint32_t>> ranks = rank_rules(program_);
    if (!ranks.ok()) {
      const auto rule = static_cast<size_t>(std::stoul(ranks.message()));
      return Status::error("has the rule " + grammar_.rules()[rule - 1].name +
                           ", which can begin with itself: write the repetition another way");
    }
    program_.ranks = std::move(*ranks);
    return std::optional<Program>(std::move(program_));
  }

 private:
  void add_classes() {
    // Bytes are equal if they are in the same sets; literals tell their bytes from all others.
    std::vector<ByteSet> sets = grammar_.sets();
    std::set<const TextAutomaton*> told_apart;
    ByteSet single;
    for (uint32_t i = 0; i < node_count(); ++i) {
      for (const char c : grammar_.node(i).text) single.set(static_cast<uint8_t>(c));
    }
    std::array<uint32_t, 256> group{};
    uint32_t groups = 1;
    const auto split = [&group, &groups](const ByteSet& set) {
      std::map<uint32_t, uint32_t> moved;
      std::array<uint32_t, 256> inside{}, size{};
      for (size_t byte = 0; byte < 256; ++byte) {
        ++size[group[byte]];
        inside[group[byte]] += set[byte] ? 1 : 0;
      }
      for (size_t byte = 0; byte < 256; ++byte) {
        const uint32_t old = group[byte];
        if (!set[byte] || inside[old] == size[old]) continue;
        const auto [place, added] = moved.try_emplace(old, groups);
        if (added) ++groups;
        group[byte] = place->second;
      }
    };
    for (const ByteSet& set : sets) split(set);
    for (const auto& text : grammar_.texts()) {
      const TextAutomaton& automaton = text->automaton();
      if (!told_apart.insert(&automaton).second) continue;
      for (uint32_t symbol = 0; symbol < automaton.symbols; ++symbol) {
        ByteSet set;
        for (size_t byte = 0; byte < 256; ++byte) set[byte] = automaton.symbol_of[byte] == symbol;
        split(set);
      }
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (single[byte]) split(ByteSet().set(byte));
    }
    program_.byte_of.resize(groups);
    for (size_t byte = 256; byte-- > 0;) {
      program_.symbol_of[byte] = static_cast<uint8_t>(group[byte]);
      program_.byte_of[group[byte]] = static_cast<uint8_t>(byte);
    }
    for (const ByteSet& set : sets) {
      ByteSet symbols;
      for (size_t byte = 0; byte < 256; ++byte) {
        if (set[byte]) symbols.set(group[byte]);
      }
      program_.classes.push_back(symbols);
    }
    // One class for each byte of a literal.
    for (size_t byte = 0; byte < 256; ++byte) {
      if (!single[byte]) continue;
      class_of_byte_[byte] = static_cast<uint32_t>(program_.classes.size());
      program_.classes.push_back(ByteSet().set(group[byte]));
    }
  }

  uint32_t node_count() const { return grammar_.node_count(); }

  uint32_t add(Op op, uint32_t a, uint32_t b) {
    program_.code.push_back({op, a, b});
    return static_cast<uint32_t>(program_.code.size() - 1);
  }

  /// A kByte or kSplit that nothing changes: an equal one that was added lately, if there is one.
  /// So the ends of a class's many characters are one, and their states are.
  uint32_t add_shared(Op op, uint32_t a, uint32_t b) {
    const uint32_t hash = (a * 0x9E3779B1u ^ b * 0x85EBCA77u) + static_cast<uint32_t>(op);
    uint32_t& known = recent_[(hash >> 16 ^ hash) % recent_.size()];
    const Program::Instruction& at = program_.code[known];
    if (at.op != op || at.a != a || at.b != b) known = add(op, a, b);
    return known;
  }

  /// Instructions that match `node` and then go on at `next`; the first of them. Nodes are nested
  /// as deeply as their parsers allow, a few hundred levels.
  uint32_t emit(Grammar::Node node, uint32_t next) {
    const Grammar::NodeData& data = grammar_.node(node);
    switch (data.kind) {
      case Grammar::Kind::kNothing:
        return kNeverAt;
      case Grammar::Kind::kByte:
        return add_shared(Op::kByte, data.value, next);
      case Grammar::Kind::kLiteral:
        for (auto c = data.text.rbegin(); c != data.text.rend(); ++c) {
          next = add_shared(Op::kByte, class_of_byte_[static_cast<uint8_t>(*c)], next);
        }
        return next;
      case Grammar::Kind::kSequence:
        for (auto part = data.nodes.rbegin(); part != data.nodes.rend(); ++part) {
          next = emit(*part, next);
        }
        return next;
      case Grammar::Kind::kChoice: {
        uint32_t first = emit(data.nodes.back(), next);
        for (auto part = data.nodes.rbegin() + 1; part != data.nodes.rend(); ++part) {
          first = add_shared(Op::kSplit, emit(*part, next), first);
        }
        return first;
      }
      case Grammar::Kind::kRepeat:
        return emit_repeat(data, next);
      case Grammar::Kind::kCounted: {
        const uint32_t first = add(Op::kRepeat, data.value + 1, next);
        (void)add(Op::kAgain, data.min, data.max);
        return first;
      }
      case Grammar::Kind::kText: {
        const CountedText& text = *program_.texts[data.value];
        const uint32_t first = add(Op::kText, data.value, next);
        (void)add(Op::kInside, data.value, next);
        return text.accepts(TextAutomaton::kStart, 0) ? add(Op::kSplit, first, next) : first;
      }
      case Grammar::Kind::kCall:
        // A call at a rule's end needs no return to it: so repetition by recursion at the end keeps
        // the stack as it is.
        return next == kReturnAt ? add(Op::kEnter, data.value + 1, 0)
                                 : add(Op::kCall, data.value + 1, next);
    }
    return kNeverAt;
  }

  uint32_t emit_repeat(const Grammar::NodeData& data, uint32_t next) {
    const Grammar::Node node = data.nodes[0];
    if (data.unlimited) {
      const uint32_t loop = add(Op::kSplit, 0, next);
      const uint32_t body = emit(node, loop);
      program_.code[loop].a = body;
      next = loop;
    } else {
      const uint32_t end = next;
      for (uint32_t i = data.min; i < data.max; ++i) next = add(Op::kSplit, emit(node, next), end);
    }
    for (uint32_t i = 0; i < data.min; ++i) next = emit(node, next);
    return next;
  }

  /// Finds what can reach the end of its rule, and replaces all else by kNever.
  void prune() {
    const std::vector<Program::Instruction>& code = program_.code;
    // For each instruction, those that go on there; for each rule, those that run it.
    std::vector<std::vector<uint32_t>> before(code.size()), callers(program_.starts.size());
    for (uint32_t at = 0; at < code.size(); ++at) {
      const auto [op, a, b] = code[at];
      if (op == Op::kSplit) before[a].push_back(at);
      const bool calls = op == Op::kCall || op == Op::kRepeat;
      const bool takes = op == Op::kByte || op == Op::kText || op == Op::kInside;
      if (takes || op == Op::kSplit || calls) before[b].push_back(at);
      if (op == Op::kEnter || calls) callers[a].push_back(at);
    }
    std::vector<std::vector<uint32_t>> rules_at(code.size());
    for (uint32_t rule = 0; rule < program_.starts.size(); ++rule) {
      rules_at[program_.starts[rule]].push_back(rule);
    }
    productive_.assign(code.size(), false);
    std::vector<uint32_t> left{kReturnAt};
    productive_[kReturnAt] = true;
    const auto visit = [&](uint32_t at) {
      const auto [op, a, b] = code[at];
      const bool repeats = op == Op::kRepeat;
      const bool calls = op == Op::kCall || (repeats && code[at + 1].a > 0);
      const bool reaches = !calls || (productive_[b] && productive_[program_.starts[a]]);
      if (!reaches || productive_[at] || (repeats && !productive_[b])) return;
      productive_[at] = true;
      if (repeats) productive_[at + 1] = true;
      left.push_back(at);
    };
    while (!left.empty()) {
      const uint32_t at = left.back();
      left.pop_back();
      for (const uint32_t other : before[at]) visit(other);
      for (const uint32_t rule : rules_at[at]) {
        for (const uint32_t other : callers[rule]) visit(other);
      }
    }
    for (uint32_t at = 0; at < code.size(); ++at) {
      if (!productive_[at]) program_.code[at] = {Op::kNever};
      const auto [op, a, b] = code[at];
      if (op == Op::kRepeat && !productive_[program_.starts[a]]) program_.code[at + 1].b = 0;
    }
  }

  /// A rule that matches the empty text is called or skipped, so that no call returns before a byte
  /// was taken.
  void skip_empty_rules() {
    std::vector<bool> empty(program_.starts.size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t rule = 0; rule < program_.starts.size(); ++rule) {
        if (empty[rule] || !reaches_return(program_.starts[rule], empty)) continue;
        empty[rule] = changed = true;
      }
    }
    const auto count = static_cast<uint32_t>(program_.code.size());
    for (uint32_t at = 0; at < count; ++at) {
      const Program::Instruction call = program_.code[at];
      if (call.op == Op::kRepeat && empty[call.a]) program_.code[at + 1].a = 0;
      if (call.op != Op::kCall || !empty[call.a]) continue;
      const uint32_t moved = add(Op::kCall, call.a, call.b);
      program_.code[at] = {Op::kSplit, moved, call.b};
    }
  }

  bool reaches_return(uint32_t start, const std::vector<bool>& empty) {
    std::vector<uint32_t> left{start}, seen;
    visited_.resize(program_.code.size(), false);
    bool is_empty = false;
    while (!left.empty() && !is_empty) {
      const uint32_t at = left.back();
      left.pop_back();
      if (visited_[at]) continue;
      visited_[at] = true;
      seen.push_back(at);
      const auto [op, a, b] = program_.code[at];
      is_empty = op == Op::kReturn || (op == Op::kEnter && empty[a]);
      if (op == Op::kSplit) left.push_back(a);
      const bool calls = op == Op::kCall || op == Op::kRepeat;
      const bool skips = op == Op::kRepeat && program_.code[at + 1].a == 0;
      if (op == Op::kSplit || skips || (calls && empty[a])) left.push_back(b);
    }
    for (const uint32_t at : seen) visited_[at] = false;
    return is_empty;
  }

  const Grammar& grammar_;
  Program program_;
  std::array<uint32_t, 256> class_of_byte_{};
  std::array<uint32_t, 4096> recent_{};  ///< of add_shared(), by their hash; 0: none
  std::vector<bool> productive_;
  std::vector<bool> visited_;
};

}  // namespace

Result<Program> compile_program(const Grammar& grammar, Grammar::Node node) {
  Result<std::optional<Program>> texts = compile_texts(grammar, node);
  if (!texts.ok()) return texts.status();
  if (!texts->has_value()) return Status::error("has no text that matches");
  return std::move(**texts);
}

Result<std::optional<Program>> compile_texts(const Grammar& grammar, Grammar::Node node) {
  return Compiler(grammar).compile(node);
}

}  // namespace thimble
